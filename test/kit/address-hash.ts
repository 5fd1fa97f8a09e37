/** The keyed hash of addresses, with a key for tests. */
import { createAddressHash } from '../../src/suppressions/suppressions.ts';

export const testAddressHash = createAddressHash(Buffer.alloc(32, 1));
