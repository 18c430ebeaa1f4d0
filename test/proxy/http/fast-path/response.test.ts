import assert from 'node:assert/strict';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { FastResponse } from '../../../../src/proxy/http/fast-path/response.ts';
import { LiveHeaders } from '../../../../src/proxy/http/fast-path/head-text.ts';

const sent = (): never => assert.fail('sent');

test('a head that HTTP forbids throws before anything is sent, so an error answer remains possible', () => {
  const connection = {
    socket: new Socket(),
    send: sent,
    sendFrom: sent,
    sendBehind: sent,
    sendPiece: sent,
    flush: sent,
    finish: sent,
  };
  const response = new FastResponse({ connection, live: new LiveHeaders(), isHead: false, onDone: () => undefined });

  assert.throws(() => response.writeHead(200, ['X-Node-Cursor', 'a\r\nX: b']), /forbids/);

  assert.equal(response.headersSent, false);
  assert.equal(response.statusCode, 200);
  response.writeHead(500, ['Content-Type', 'application/json']);
  assert.equal(response.headersSent, true);
});
