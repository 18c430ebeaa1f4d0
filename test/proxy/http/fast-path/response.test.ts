import assert from 'node:assert/strict';
import { Socket } from 'node:net';
import { test } from 'node:test';
import type { UnsentAnswers } from '../../../../src/proxy/http/unsent-answers.ts';
import { FastResponse } from '../../../../src/proxy/http/fast-path/response.ts';
import { AnswerQueue, AnswerTurn } from '../../../../src/proxy/http/fast-path/answer-queue.ts';

const unsent: unknown = undefined;

test('a head that HTTP forbids throws before anything is sent, so an error answer remains possible', () => {
  const connection = new AnswerQueue(new Socket(), new AnswerTurn(), unsent as UnsentAnswers);
  const response = new FastResponse(connection, false, () => undefined);

  assert.throws(() => response.writeHead(200, ['X-Node-Cursor', 'a\r\nX: b']), /forbids/);

  assert.equal(connection.isEmpty, true);
  assert.equal(response.headersSent, false);
  assert.equal(response.statusCode, 200);
  response.writeHead(500, ['Content-Type', 'application/json']);
  assert.equal(response.headersSent, true);
});
