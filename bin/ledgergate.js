#!/usr/bin/env node
/* Runs on any Node, so that an old one gets a sentence instead of a syntax error: keep to old JavaScript here. */
const parts = process.versions.node.split('.').map(Number);
if (parts[0] > 22 || (parts[0] === 22 && parts[1] >= 19)) {
  void import('./start.js');
} else {
  process.stderr.write(
    'ledgergate needs Node 22.19 or newer, and this is Node ' +
      process.versions.node +
      ' (in a checkout, "npm start -- ARGS" uses the one npm installed).\n',
    function () {
      process.exit(2);
    },
  );
}
