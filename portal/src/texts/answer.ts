/** The sentences that say what became of a message: what happened, and what comes next. Times come in words. */
export const causes: Readonly<Record<string, string>> = {
  'mailbox-not-found': 'the mailbox doesn’t exist',
  'mailbox-disabled': 'the mailbox is disabled',
  'mailbox-full': 'the mailbox is full',
  'domain-not-found': 'the domain doesn’t exist or doesn’t accept email',
  blocked: 'the sending server’s IP address is blocked',
  policy: 'rejected by the recipient server’s policy',
  'content-rejected': 'the content or size was rejected',
  'rate-limited': 'the recipient server is rate limiting us',
  greylisted: 'the recipient server is greylisting us',
  smtputf8: 'the recipient server doesn’t support internationalized addresses (SMTPUTF8)',
  tls: 'a TLS connection couldn’t be established',
  network: 'the recipient server couldn’t be reached',
  'remote-error': 'the recipient server reported an internal error',
  refused: 'no known reason was given',
  internal: 'there’s a problem on our side',
  'warm-up': 'the sending IPs are still warming up',
};

/** Why one waits, with the domain of the recipient. */
export const waits: Readonly<Record<string, (domain: string) => string>> = {
  'mailbox-not-found': (domain) => `${domain} temporarily doesn’t recognize this address`,
  'mailbox-disabled': () => 'the mailbox is temporarily unavailable',
  'mailbox-full': () => 'the mailbox is full',
  'domain-not-found': (domain) => `${domain} couldn’t be resolved (temporary DNS failure)`,
  blocked: (domain) => `${domain} is blocking our sending IP`,
  policy: (domain) => `${domain} deferred this email for policy reasons`,
  'content-rejected': (domain) => `${domain} deferred this email because of its content or size`,
  'rate-limited': (domain) => `${domain} takes mail more slowly than it arrives`,
  greylisted: (domain) => `${domain} asked us to retry later (greylisting)`,
  smtputf8: (domain) => `${domain} doesn’t currently support internationalized addresses`,
  tls: (domain) => `couldn’t establish a TLS connection to ${domain}`,
  network: (domain) => `no server of ${domain} could be reached`,
  'remote-error': (domain) => `${domain} reported a temporary error`,
  refused: (domain) => `${domain} deferred this email without giving a reason`,
  internal: () => 'something is wrong on the sending side',
  'warm-up': (domain) =>
    `today’s warm-up limit for ${domain} has been reached`,
};

export const turns = {
  nobody: 'No action needed.',
  you: 'Action required.',
  operator: 'Waiting on your operator.',
};

export const happened = {
  scheduled: (at: string, from: string) => `Scheduled to send at ${at} (${from}).`,
  queued: (at: string) => `Accepted at ${at} and queued.`,
  queuedAgain: 'Retrying now.',
  sending: (number: number) => `Sending now (attempt ${number}).`,
  delayed: (because: string) => `Delayed: ${because}.`,
  delivered: (host: string, at: string, after: string) =>
    `Delivered to ${host} at ${at} (${after} after acceptance).`,
  deliveredPlain: (host: string, at: string) => `Delivered to ${host} at ${at}.`,
  bounced: (domain: string, at: string, cause: string) => `Bounced by ${domain} at ${at}: ${cause}.`,
  failed: (at: string, cause: string) => `Failed at ${at}: ${cause}.`,
  returned: (host: string, at: string, cause: string) => `${host} accepted the email and then bounced it at ${at}: ${cause}.`,
  returnedExpired: (host: string, at: string) => `${host} accepted the email but couldn’t deliver it and gave up at ${at}.`,
  expired: (at: string, after: string, domain: string) =>
    `Expired at ${at} after ${after}: ${domain} never accepted it.`,
  complained: (at: string) => `Marked as spam by the recipient at ${at}.`,
  suppressed: (to: string) => `Not sent: ${to} is on your suppression list.`,
  suppressedSimulated: 'Not sent (simulated): the sandbox treated this address as suppressed.',
  cancelled: (at: string) => `Canceled at ${at}, before sending.`,
};

export const next = {
  scheduled: 'It will be sent automatically. You can reschedule or cancel it until then.',
  queued: 'It will be sent within seconds.',
  queuedLong: (since: string) =>
    `Queued for ${since}: other messages are ahead of it, or the destination is rate limiting us. It will be sent automatically.`,
  sending: 'This usually takes a few seconds.',
  again: (at: string, from: string) => `Next attempt at ${at} (${from}).`,
  latest: (reply: string) => `Last response: “${reply}”.`,
  againUntil: (at: string) => `We’ll keep retrying until ${at}.`,
  delivered: 'Accepted by the recipient’s server. If the recipient can’t find it, ask them to check spam.',
  opened: 'Opened.',
  clicked: 'A link was clicked.',
  inTheClear: (why: string) => `Sent without TLS: ${why}.`,
  noTls: 'the recipient server doesn’t support TLS',
  isSuppressed: 'This address is now suppressed. Further emails to it won’t be sent.',
  isLifted: 'The address has since been removed from the suppression list. Resend when you’re ready.',
  expired: 'Check the last response, fix the cause, then resend.',
  complained: 'Don’t email this address again unless the recipient asks you to.',
  suppressed: 'If the recipient agrees, remove the address from the suppression list and resend.',
  cancelled: 'Resend it if you still want it delivered.',
  simulated: 'Simulated in the sandbox. Nothing was sent.',
};
