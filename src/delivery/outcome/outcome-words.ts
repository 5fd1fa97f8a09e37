/**
 * The words for what can become of a message: its category, whose turn it is to act, and one sentence of advice for
 * somebody who has never seen an SMTP reply. Events, the portal and the documentation show exactly these.
 */

/** Who can fix it. */
export type Owner = 'recipient' | 'sender' | 'service' | 'remote';

/**
 * `hard`: something is wrong with the address or its domain. `block`: a permanent refusal for policy, content, reputation,
 * authentication or rights. `soft`: everything else that ended, such as a full mailbox or an expired message.
 */
export type BounceKind = 'hard' | 'soft' | 'block';

interface Explanation {
  owner: Owner;
  /** Of a permanent outcome. */
  bounce: BounceKind;
  advice: { temporary: string; permanent: string };
}

const retried = 'it is tried again by itself.';

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
      temporary: `The receiving server does not know this address at the moment; ${retried}`,
      permanent: 'The address does not exist; ask the recipient for another one and stop sending to this one.',
    },
  },
  'mailbox-disabled': {
    owner: 'recipient',
    bounce: 'hard',
    advice: {
      temporary: `The mailbox takes no mail at the moment; ${retried}`,
      permanent: 'The mailbox is closed or disabled; ask the recipient for another address.',
    },
  },
  'mailbox-full': {
    owner: 'recipient',
    bounce: 'soft',
    advice: {
      temporary: `The mailbox is full; ${retried}`,
      permanent: 'The mailbox is full; send again later, or reach the recipient in another way.',
    },
  },
  'domain-not-found': {
    owner: 'recipient',
    bounce: 'hard',
    advice: {
      temporary: `The domain of the address cannot be found at the moment; ${retried}`,
      permanent: 'The domain of the address does not exist or takes no mail; look for a typing error after the @.',
    },
  },
  blocked: {
    owner: 'service',
    bounce: 'block',
    advice: {
      temporary: `The receiving server blocks the sending host; the operator should check its reverse DNS and look it up on block lists; ${retried}`,
      permanent:
        'The receiving server blocks the sending host; the operator should check its reverse DNS, look it up on block lists and ask to be removed.',
    },
  },
  policy: {
    owner: 'remote',
    bounce: 'block',
    advice: {
      temporary: `The receiving server does not take this mail for reasons of policy; ${retried}`,
      permanent:
        "The receiving server refuses this mail for reasons of policy; check SPF, DKIM and DMARC of the sender's domain, then ask its postmaster.",
    },
  },
  'content-rejected': {
    owner: 'sender',
    bounce: 'block',
    advice: {
      temporary: `The receiving server hesitates over the content or size of this mail; ${retried}`,
      permanent:
        'The receiving server refuses the content or size of this mail; change links, attachments or wording before sending again.',
    },
  },
  'rate-limited': {
    owner: 'remote',
    bounce: 'soft',
    advice: {
      temporary: `The receiving server takes mail more slowly than it arrives; ${retried}`,
      permanent: 'The receiving server takes no more mail for now; send again later and more slowly.',
    },
  },
  greylisted: {
    owner: 'remote',
    bounce: 'soft',
    advice: {
      temporary: `The receiving server asks unknown senders to come back later; ${retried}`,
      permanent: 'The receiving server refused a sender it does not know; send again later.',
    },
  },
  smtputf8: {
    owner: 'recipient',
    bounce: 'soft',
    advice: {
      temporary: `The receiving server does not take addresses with letters beyond ASCII at the moment; ${retried}`,
      permanent:
        'The receiving server does not take addresses with letters beyond ASCII; ask the recipient for an address in plain letters.',
    },
  },
  tls: {
    owner: 'remote',
    bounce: 'block',
    advice: {
      temporary: `No encrypted connection to the receiving server could be made; ${retried}`,
      permanent:
        'This mail requires encryption and the receiving server offers none; send it without requireTls, or ask its postmaster.',
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
      temporary: `The receiving server has a problem of its own; ${retried}`,
      permanent: 'The receiving server has a problem of its own; ask its postmaster.',
    },
  },
  refused: {
    owner: 'remote',
    bounce: 'soft',
    advice: {
      temporary: `The receiving server did not take this mail and did not say why; ${retried}`,
      permanent: 'The receiving server refused this mail without a reason we know; its reply is all there is to go by.',
    },
  },
  internal: {
    owner: 'service',
    bounce: 'soft',
    advice: {
      temporary: `Something is wrong on the sending side; the operator should look at the reply, and ${retried}`,
      permanent: 'Something is wrong on the sending side; the operator should look at the log before it is sent again.',
    },
  },
  'warm-up': {
    owner: 'service',
    bounce: 'soft',
    advice: {
      temporary:
        'The addresses that mail leaves from are new, and send so many mails a day to this provider and no more; it leaves by itself when the next day begins.',
      permanent: '',
    },
  },
  expired: {
    owner: 'remote',
    bounce: 'soft',
    advice: {
      temporary: '',
      permanent: 'The mail could not be delivered within its lifetime; the reply is that of the last attempt.',
    },
  },
} as const satisfies Record<string, Explanation>;

/** Of our own refusal, where the words of `policy` would speak of a receiving server. */
export const SENDER_UNVERIFIED_ADVICE =
  "The sender's domain was removed from this account, or is not verified any more; add and verify it, then send the mail again.";

/** Of our own refusal where it is not the recipient whose address the server cannot take. */
export const SENDER_SMTPUTF8_ADVICE =
  'The address of the sender, or an id in the header, has letters beyond ASCII, which the receiving server does not take; send from an address in plain letters.';

/** Of our own refusal to connect to exchangers whose addresses are not public. */
export const PRIVATE_EXCHANGER_ADVICE =
  'The mail exchangers of this domain have addresses that are not public, to which this service does not connect; where that is meant, the operator permits them with POSTRIDER_MX_ALLOW.';

/** Of a bounce by a server that had taken the mail, and whose own host is blocked where it passed it on. */
export const REPORTED_BLOCK_ADVICE =
  'A server that took this mail could not pass it on, for its own host is blocked there; reach the recipient in another way, or tell its postmaster.';

/** Of our own refusal to send mail to ourselves. */
export const LOOP_ADVICE =
  'The DNS names this service itself as mail exchanger of this domain, which has no inbound route here: make one, or name the server that keeps its mailboxes, or give this service a host name of its own with POSTRIDER_SMTP_HOSTNAME.';

/** Where the recipient's domain asks for encryption (MTA-STS, DANE) that its own server does not provide. */
export const TLS_POLICY_ADVICE =
  "The recipient's domain asks for encryption that its own server does not provide at the moment, so that nothing is handed over; its postmaster can fix it, and it is tried again by itself.";

export type Category = keyof typeof explanations;
