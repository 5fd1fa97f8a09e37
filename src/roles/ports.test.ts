/** The addresses at which this service is an MX host. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ownMxAddresses } from './ports.ts';

test("this machine's addresses count as an MX host only if Postrider listens on the MX port", () => {
  const inboundPort = undefined;
  assert.ok(ownMxAddresses({ mxPort: 2525, smtpPort: 2525, inboundPort }).includes('127.0.0.1'));
  assert.ok(ownMxAddresses({ mxPort: 25, smtpPort: 587, inboundPort: 25 }).includes('127.0.0.1'));
  assert.deepEqual(ownMxAddresses({ mxPort: 25, smtpPort: 2525, inboundPort: 2526 }), []);
  assert.deepEqual(ownMxAddresses({ mxPort: 25, smtpPort: undefined, inboundPort }), []);
});
