/** Mail for operators that is listed and goes nowhere. */
import type { OperatorMailOptions } from '../../src/inbound/inbound.ts';

export const notForwarded: OperatorMailOptions = {
  postmaster: undefined,
  forward: () => Promise.resolve(false),
  mayForward: () => true,
};
