/**
 * How an acceptance crosses to the storage thread: as JSON, with the bytes beside it as strings of one byte a character.
 * It is the hottest message of the program; cloned as it is, it cost 11 us of the serving thread and 6 us of the
 * storage thread, packed it costs 4 and 4 (accept row of the benchmarks, 1.8 KB bodies).
 */
import type { Wire } from '../storage/operation.ts';
import type { Acceptance, AcceptanceResult } from './accept-store.ts';

type Packed = [json: string, bodyHash: string | null, ...contents: (string | null)[]];

function asText(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

export const acceptWire: Wire<Acceptance, AcceptanceResult> = {
  packArgs: (acceptance): Packed => {
    const emails = [];
    const contents: (string | null)[] = [];
    for (const email of acceptance.emails) {
      emails.push({ ...email, content: null });
      contents.push(email.content && asText(email.content));
    }
    const { idempotency } = acceptance;
    const plain = { ...acceptance, emails, idempotency: idempotency && { ...idempotency, bodyHash: null } };
    return [JSON.stringify(plain), idempotency && asText(idempotency.bodyHash), ...contents];
  },
  unpackArgs: (packed) => {
    const [json, bodyHash, ...contents] = packed as Packed;
    const acceptance = JSON.parse(json) as Acceptance;
    for (const [index, content] of contents.entries()) {
      if (content !== null) acceptance.emails[index]!.content = Buffer.from(content, 'latin1');
    }
    if (acceptance.idempotency) acceptance.idempotency.bodyHash = Buffer.from(bodyHash ?? '', 'latin1');
    return acceptance;
  },
  packResult: (result) => JSON.stringify(result),
  unpackResult: (packed) => JSON.parse(packed as string) as AcceptanceResult,
};
