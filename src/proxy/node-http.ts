/**
 * Node's HTTP without its import by name, which reads all that the module exports: one of these is a WebSocket that comes
 * with a whole HTTP client, and loading that takes ten times as long as the rest, a tenth of a start.
 */

export const { createServer, get, METHODS, STATUS_CODES } = process.getBuiltinModule('node:http');
