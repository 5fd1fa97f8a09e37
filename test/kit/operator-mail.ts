/** Email for operators that is recorded instead of sent. */
import type { OperatorMailOptions } from '../../src/inbound/inbound.ts';

export const notForwarded: OperatorMailOptions = {
  postmaster: undefined,
  forward: () => Promise.resolve(false),
  mayForward: () => true,
};
