/**
 * Failure categories: who has to act, the kind of a permanent failure, and one sentence of advice for readers without SMTP knowledge.
 * Events, the portal and the documentation use exactly these.
 */

/** Who has to act: the recipient, the account that sent, the operator of this installation, or the receiving server. */
export type Owner = 'recipient' | 'sender' | 'service' | 'remote';

/**
 * `hard`: the address or its domain is invalid. `block`: a permanent refusal for policy, content, reputation, authentication or
 * permissions. `soft`: all other final failures, such as a full mailbox or an expired message.
 */
export type BounceKind = 'hard' | 'soft' | 'block';

interface Explanation {
  owner: Owner;
  /** Applies to a permanent outcome. */
  bounce: BounceKind;
  advice: { temporary: string; permanent: string };
}

const retried = 'Postrider retries automatically.';

export const explanations = {
  accepted: {
    owner: 'recipient',
    bounce: 'soft',
    advice: { temporary: '', permanent: '' },
  },
  'mailbox-not-found': {
    owner: 'recipient',
    bounce: 'hard',
    advice: {
      temporary: `The receiving server temporarily does not recognize this address; ${retried}`,
      permanent: 'The address does not exist; stop sending to it, and ask the recipient for a new one.',
    },
  },
  'mailbox-disabled': {
    owner: 'recipient',
    bounce: 'hard',
    advice: {
      temporary: `The mailbox is temporarily unavailable; ${retried}`,
      permanent: 'The mailbox is disabled; ask the recipient for another address.',
    },
  },
  'mailbox-full': {
    owner: 'recipient',
    bounce: 'soft',
    advice: {
      temporary: `The mailbox is full; ${retried}`,
      permanent: 'The mailbox is full; try again later, or contact the recipient another way.',
    },
  },
  'domain-not-found': {
    owner: 'recipient',
    bounce: 'hard',
    advice: {
      temporary: `The domain of the address could not be resolved; ${retried}`,
      permanent: 'The domain of the address does not exist or does not accept email; check it for typos.',
    },
  },
  blocked: {
    owner: 'service',
    bounce: 'block',
    advice: {
      temporary: `The receiving server blocks the sending host; your operator should check the reverse DNS and blocklist entries of that host, and ${retried}`,
      permanent:
        'The receiving server blocks the sending host; your operator should check the reverse DNS and blocklist entries of that host, and request removal.',
    },
  },
  policy: {
    owner: 'remote',
    bounce: 'block',
    advice: {
      temporary: `The receiving server deferred this email for policy reasons; ${retried}`,
      permanent:
        "The receiving server rejected this email for policy reasons; check SPF, DKIM and DMARC of the sender's domain, then contact its postmaster.",
    },
  },
  'content-rejected': {
    owner: 'sender',
    bounce: 'block',
    advice: {
      temporary: `The receiving server deferred this email because of its content or size; ${retried}`,
      permanent:
        'The receiving server rejected the content or size of this email; change links, attachments or wording before you send it again.',
    },
  },
  'rate-limited': {
    owner: 'remote',
    bounce: 'soft',
    advice: {
      temporary: `The receiving server limits the sending rate; ${retried}`,
      permanent: "The receiving server's rate limit was reached; send again later and more slowly.",
    },
  },
  greylisted: {
    owner: 'remote',
    bounce: 'soft',
    advice: {
      temporary: `The receiving server defers unknown senders (greylisting); ${retried}`,
      permanent: 'The receiving server rejected an unknown sender (greylisting); send again later.',
    },
  },
  smtputf8: {
    owner: 'recipient',
    bounce: 'soft',
    advice: {
      temporary: `The receiving server temporarily does not support internationalized addresses; ${retried}`,
      permanent:
        'The receiving server does not support internationalized addresses; ask the recipient for an ASCII address.',
    },
  },
  tls: {
    owner: 'remote',
    bounce: 'block',
    advice: {
      temporary: `A TLS connection to the receiving server could not be established; ${retried}`,
      permanent:
        'This email requires TLS, which the receiving server does not support; send it without requireTls, or contact its postmaster.',
    },
  },
  network: {
    owner: 'remote',
    bounce: 'soft',
    advice: {
      temporary: `The receiving server could not be reached; ${retried}`,
      permanent: 'The receiving server could not be reached.',
    },
  },
  'remote-error': {
    owner: 'remote',
    bounce: 'soft',
    advice: {
      temporary: `The receiving server reported a temporary error; ${retried}`,
      permanent: 'The receiving server reported an error; contact its postmaster.',
    },
  },
  refused: {
    owner: 'remote',
    bounce: 'soft',
    advice: {
      temporary: `The receiving server deferred this email without giving a reason; ${retried}`,
      permanent: 'The receiving server rejected this email for an unknown reason; see its reply.',
    },
  },
  internal: {
    owner: 'service',
    bounce: 'soft',
    advice: {
      temporary: `An error occurred in this service; your operator should check the reply, and ${retried}`,
      permanent:
        'An error occurred in this service; your operator should check the log before the email is sent again.',
    },
  },
  'warm-up': {
    owner: 'service',
    bounce: 'soft',
    advice: {
      temporary:
        "The sending addresses are warming up and have reached today's limit for this provider; sending continues at 00:00 UTC.",
      permanent: '',
    },
  },
  'relay-limit': {
    owner: 'service',
    bounce: 'soft',
    advice: {
      temporary:
        'The sending limit that your operator set for the relay is reached; sending continues automatically, at the time in the reply.',
      permanent: '',
    },
  },
  expired: {
    owner: 'remote',
    bounce: 'soft',
    advice: {
      temporary: '',
      permanent: 'The email could not be delivered before it expired; see the reply to the last attempt.',
    },
  },
} as const satisfies Record<string, Explanation>;

/** Postrider refused to send: the advice of `policy` is about a receiving server. */
export const SENDER_UNVERIFIED_ADVICE =
  "The sender's domain was removed from this account or is no longer verified; add and verify it, then send the email again.";

/** Postrider could not send: the sender's address, not the recipient's, requires SMTPUTF8. */
export const SENDER_SMTPUTF8_ADVICE =
  'The sender address or an id in the header has non-ASCII characters, which the receiving server does not support; send from an ASCII address.';

/** Postrider did not connect to MX hosts with private addresses. */
export const PRIVATE_MX_ADVICE =
  'The mail servers of this domain have private IP addresses; if that is intended, your operator can allow them with POSTRIDER_MX_ALLOW.';

/** A bounce from a server that had accepted the email and is blocked by the server it forwards to. */
export const REPORTED_BLOCK_ADVICE =
  'A server that accepted this email could not forward it because that server is blocked; contact the recipient another way, or tell its postmaster.';

/** Postrider refused to send email to itself. */
export const LOOP_ADVICE =
  'The MX record of this domain points to this service, which has no inbound route for it: create a route, point the MX record to the server that has its mailboxes, or give this service its own host name with POSTRIDER_SMTP_HOSTNAME.';

/** The recipient's domain requires TLS (MTA-STS, DANE) that its own server does not provide. */
export const TLS_POLICY_ADVICE =
  "The recipient's domain requires TLS that its own server does not currently provide; its postmaster can fix it, and Postrider retries automatically.";

export type Category = keyof typeof explanations;
