/** Planted bugs in how other servers' replies, TLS policies, pauses, and signing keys are handled. */
import type { Planted } from './planted.ts';

export const PLANTED_REPLIES: Readonly<Record<string, Planted>> = {
  'a DKIM key signs before it is published': {
    file: 'domains/store.ts',
    find: "state = 'active' AND (algorithm = 'rsa' OR published_at IS NOT NULL) ORDER",
    replace: "state = 'active' AND (algorithm = 'rsa' OR 1 = 1) ORDER",
    finds: /which is not in the DNS/,
  },
  'a new DKIM key signs immediately': {
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
  'a DKIM key that was removed from DNS still signs': {
    file: 'domains/verify.ts',
    find: 'isPublished: isUnsure ? null : isPublished,',
    replace: 'isPublished: isUnsure || !isPublished ? null : isPublished,',
    finds: /which is not in the DNS/,
  },
  'a reply that quotes another server suppresses the address': {
    file: 'delivery/outcome/reply-match.ts',
    find: 'const vetoes = [NOT_THE_ADDRESS, SECOND_HAND, ',
    replace: 'const vetoes = [NOT_THE_ADDRESS, ',
    finds: /suppressed without a reason|nothing speaks against/,
  },
  'a policy code (x.7.x) suppresses the address': {
    file: 'delivery/outcome/reply-match.ts',
    find: 'return !/^[47]\\./.test(reply.detail) && !vetoes',
    replace: 'return !vetoes',
    finds: /suppressed without a reason|nothing speaks against/,
  },
  'greylisting with a 5xx code is permanent': {
    file: 'delivery/outcome/outcome.ts',
    find: "new Set(['blocked', 'greylisted', 'rate-limited', 'remote-error']);",
    replace: "new Set(['blocked', 'rate-limited', 'remote-error']);",
    finds: /and nobody refused it|ended by .*, which passes/,
  },
  'a "too many recipients" reply is permanent': {
    file: 'delivery/outcome/outcome.ts',
    find: "new Set(['blocked', 'greylisted', 'rate-limited', 'remote-error']);",
    replace: "new Set(['blocked', 'greylisted', 'remote-error']);",
    finds: /and nobody refused it|ended by .*, which passes/,
  },
  'only the first line of a reply is read': {
    file: 'mail/smtp-reply.ts',
    find: '  const code = codes.at(-1)!;\n',
    replace: '  const code = codes[0]!;\n',
    finds: /was refused with .*, and waits/,
  },
  'a rejection after DATA suppresses several recipients': {
    file: 'delivery/outcome/outcome.ts',
    find: "(stage === 'dot' && recipientCount === 1);",
    replace: "(stage === 'dot' && recipientCount > 0);",
    finds: /suppressed without a reason|nothing speaks against/,
  },
  'a rejection after DATA never suppresses': {
    file: 'delivery/outcome/outcome.ts',
    find: "(stage === 'dot' && recipientCount === 1);",
    replace: "(stage === 'dot' && recipientCount === 0);",
    finds: /and is not suppressed/,
  },
  'every bounce is hard': {
    file: 'delivery/record/results.ts',
    find: "kind: outcome.kind === 'permanent' ? explanations[outcome.category].bounce : 'soft',",
    replace: "kind: outcome.kind === 'permanent' ? 'hard' : 'soft',",
    finds: /bounced with .*, of kind/,
  },
  'a permanently full mailbox is deferred': {
    file: 'delivery/outcome/outcome.ts',
    find: "const isTlsDemand = category === 'tls' && reply.code === 530;",
    replace: "const isTlsDemand = category === 'mailbox-full' || (category === 'tls' && reply.code === 530);",
    finds: /was refused with .*, and waits/,
  },
  'an expired MTA-STS policy is enforced': {
    file: 'tls-policy/mta-sts-cache.ts',
    find: 'if (id === undefined || current?.policyId === id) return answer(current);',
    replace: 'if (id === undefined || current !== undefined) return answer(current);',
    finds: /applied mta-sts, of|has another policy|came to a domain that asks for TLS/,
  },
  'an MTA-STS policy in testing mode is enforced': {
    file: 'tls-policy/policies.ts',
    find: "  const mandatory = mode === 'enforce';\n",
    replace: "  const mandatory = mode !== 'none';\n",
    finds: /applied mta-sts, of/,
  },
  'a failed TLSA lookup counts as no DANE': {
    file: 'tls-policy/policies.ts',
    find: "if (answer.kind === 'none') return undefined;",
    replace: "if (answer.kind === 'none' || answer.kind === 'failed') return undefined;",
    finds: /applied (opportunistic|requireTls), of dane|came to .* in the clear, which has DANE|whose TLSA records are/,
  },
  'every pause lasts three hours': {
    file: 'delivery/destinations/pause-steps.ts',
    find: 'return { beganMs, untilMs: beganMs + forMs, level, blockedMs };',
    replace: 'return { beganMs, untilMs: beganMs + 10_800_000, level, blockedMs };',
    finds: /ms late|was put off for/,
  },
  'each pause doubles the requested time': {
    file: 'delivery/destinations/pause-steps.ts',
    find: ': (ms ?? pauseStepMs(level));',
    replace: ': (ms ?? pauseStepMs(level)) * 40;',
    finds: /ms late|was put off for/,
  },
  'an expired suppression is enforced': {
    file: 'send/acceptance.ts',
    find: 'isSuppressed: (address) => suppressed(address) > realNowMs(call),',
    replace: 'isSuppressed: (address) => suppressed(address) > 0,',
    finds: /was let off the list|is suppressed, though/,
  },
  'the reply of the first host is lost if the attempt continues': {
    file: 'delivery/attempt/transmit.ts',
    find: 'continuing(one, { nextDestination: next.nextDestination }, hosts)',
    replace: 'continuing(one, next, hosts)',
    finds: / show(s)? that .* answered|had deferred it/,
  },
};
