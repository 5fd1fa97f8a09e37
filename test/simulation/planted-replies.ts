/** Planted bugs of what other servers say: replies, policies of TLS, pauses, and the keys that sign. */
import type { Planted } from './planted.ts';

export const PLANTED_REPLIES: Readonly<Record<string, Planted>> = {
  'a key signs before it is found in the DNS': {
    seed: 2,
    file: 'domains/store.ts',
    find: "state = 'active' AND (algorithm = 'rsa' OR published_at IS NOT NULL) ORDER",
    replace: "state = 'active' AND (algorithm = 'rsa' OR 1 = 1) ORDER",
    finds: /which is not in the DNS/,
  },
  'the next key signs as soon as it is made': {
    file: 'domains/store.ts',
    find: "state = 'active' AND (algorithm = 'rsa' OR published_at IS NOT NULL) ORDER",
    replace: "state IN ('active', 'next') AND (algorithm = 'rsa' OR published_at IS NOT NULL) ORDER",
    also: {
      file: 'domains/store.ts',
      find: "WHERE domain_id = ? AND state <> 'next' ORDER BY algorithm DESC, selector",
      replace: 'WHERE domain_id = ? ORDER BY algorithm DESC, selector',
    },
    finds: /which is not in the DNS/,
  },
  'a key that is gone from the DNS goes on signing': {
    file: 'domains/verify.ts',
    find: 'isPublished: isUnsure ? null : isPublished,',
    replace: 'isPublished: isUnsure || !isPublished ? null : isPublished,',
    finds: /which is not in the DNS/,
  },
  'the refusal of another server suppresses an address': {
    seed: 235,
    file: 'delivery/outcome/reply-rules.ts',
    find: 'const vetoes = [NOT_THE_ADDRESS, SECOND_HAND, UNSURE];',
    replace: 'const vetoes = [NOT_THE_ADDRESS, UNSURE];',
    finds: /suppressed without a reason|nothing speaks against/,
  },
  'a policy suppresses an address': {
    seed: 181,
    file: 'delivery/outcome/reply-rules.ts',
    find: 'return !/^[47]\\./.test(reading.detail) && !vetoes',
    replace: 'return !vetoes',
    finds: /suppressed without a reason|nothing speaks against/,
  },
  'a greylisting with a 5xx ends the mail': {
    file: 'delivery/outcome/outcome.ts',
    find: "new Set(['blocked', 'greylisted', 'rate-limited', 'remote-error']);",
    replace: "new Set(['blocked', 'rate-limited', 'remote-error']);",
    finds: /and nobody refused it|ended by .*, which passes/,
  },
  'too many recipients end the mail': {
    file: 'delivery/outcome/outcome.ts',
    find: "new Set(['blocked', 'greylisted', 'rate-limited', 'remote-error']);",
    replace: "new Set(['blocked', 'greylisted', 'remote-error']);",
    finds: /and nobody refused it|ended by .*, which passes/,
  },
  'the first line of a reply decides': {
    file: 'mail/smtp-reply.ts',
    find: '  const code = codes.at(-1)!;\n',
    replace: '  const code = codes[0]!;\n',
    finds: /was refused with .*, and waits/,
  },
  'a dot of several recipients suppresses them': {
    file: 'delivery/outcome/outcome.ts',
    find: "(stage === 'dot' && recipientCount === 1);",
    replace: "(stage === 'dot' && recipientCount > 0);",
    finds: /suppressed without a reason|nothing speaks against/,
  },
  'a dot suppresses nobody': {
    file: 'delivery/outcome/outcome.ts',
    find: "(stage === 'dot' && recipientCount === 1);",
    replace: "(stage === 'dot' && recipientCount === 0);",
    finds: /and is not suppressed/,
  },
  'every bounce is a hard one': {
    file: 'delivery/record/results.ts',
    find: "kind: outcome.kind === 'permanent' ? explanations[outcome.category].bounce : 'soft',",
    replace: "kind: outcome.kind === 'permanent' ? 'hard' : 'soft',",
    finds: /bounced with .*, of kind/,
  },
  'a full mailbox waits': {
    file: 'delivery/outcome/outcome.ts',
    find: "const isTlsDemand = category === 'tls' && reply.code === 530;",
    replace: "const isTlsDemand = category === 'mailbox-full' || (category === 'tls' && reply.code === 530);",
    finds: /was refused with .*, and waits/,
  },
  'a policy that is over stays in force': {
    file: 'tls-policy/mta-sts-cache.ts',
    find: 'if (id === undefined || current?.policyId === id) return answer(current);',
    replace: 'if (id === undefined || current !== undefined) return answer(current);',
    finds: /applied mta-sts, of|has another policy|came to a domain that asks for TLS/,
  },
  'a policy that is only tested is enforced': {
    file: 'tls-policy/policies.ts',
    find: "  const mandatory = mode === 'enforce';\n",
    replace: "  const mandatory = mode !== 'none';\n",
    finds: /applied mta-sts, of/,
  },
  'records that cannot be looked up are no DANE': {
    file: 'tls-policy/policies.ts',
    find: "if (answer.kind === 'none') return undefined;",
    replace: "if (answer.kind === 'none' || answer.kind === 'failed') return undefined;",
    finds: /applied (opportunistic|requireTls), of dane|came to .* in the clear, which has DANE|whose TLSA records are/,
  },
  'what the DNS said is believed for a day': {
    file: 'net/dns.ts',
    find: 'const ttlMs = temporary ? MIN_TTL_MS : Math.min(...found.map((one) => one.ttlMs));',
    replace: 'const ttlMs = 86_400_000;',
    finds: /was held back by|ms late|though nothing stood in its way/,
  },
  'a pause lasts for three hours': {
    file: 'delivery/destinations/pause-steps.ts',
    find: 'return { beganMs, untilMs: beganMs + forMs, level, blockedMs };',
    replace: 'return { beganMs, untilMs: beganMs + 10_800_000, level, blockedMs };',
    finds: /ms late|was put off for/,
  },
  'each pause is twice as long as what was asked for before': {
    file: 'delivery/destinations/pause-steps.ts',
    find: ': (ms ?? pauseStepMs(level));',
    replace: ': (ms ?? pauseStepMs(level)) * 40;',
    finds: /ms late|was put off for/,
  },
  'a suppression that is over is still in force': {
    file: 'send/acceptance.ts',
    find: 'isSuppressed: (address) => suppressed(address) > realNowMs(call),',
    replace: 'isSuppressed: (address) => suppressed(address) > 0,',
    finds: /was let off the list|is suppressed, though/,
  },
  'the reply of the first host is lost where an attempt continues': {
    file: 'delivery/attempt/transmit.ts',
    find: 'continuing(one, { nextDestination: next.nextDestination }, hosts)',
    replace: 'continuing(one, next, hosts)',
    finds: / show(s)? that .* answered|had deferred it/,
  },
};
