/** The sentences that say what became of a message: what happened, and what comes next. Times come in words. */
export const causes: Readonly<Record<string, string>> = {
  'mailbox-not-found': 'the mailbox does not exist',
  'mailbox-disabled': 'the mailbox is closed or disabled',
  'mailbox-full': 'the mailbox is full',
  'domain-not-found': 'the domain does not exist or takes no mail',
  blocked: 'it blocks the host that the mail comes from',
  policy: 'its rules do not allow this mail',
  'content-rejected': 'it does not take the content or the size',
  'rate-limited': 'it takes mail more slowly than it arrives',
  greylisted: 'it asks unknown senders to come back later',
  smtputf8: 'it takes no addresses with letters beyond ASCII',
  tls: 'no encrypted connection could be made',
  network: 'no server of it could be reached',
  'remote-error': 'it has a problem of its own',
  refused: 'it gave no reason that we know',
  internal: 'something is wrong on the sending side',
  'warm-up': 'the addresses that mail leaves from are new, and send few mails a day',
};

/** Why one waits, with the domain of the recipient. */
export const waits: Readonly<Record<string, (domain: string) => string>> = {
  'mailbox-not-found': (domain) => `${domain} does not know the address at the moment`,
  'mailbox-disabled': () => 'the mailbox takes no mail at the moment',
  'mailbox-full': () => 'the mailbox is full',
  'domain-not-found': (domain) => `${domain} cannot be found at the moment`,
  blocked: (domain) => `${domain} blocks the host that the mail comes from`,
  policy: (domain) => `${domain} does not take this mail for reasons of policy`,
  'content-rejected': (domain) => `${domain} hesitates over the content or the size`,
  'rate-limited': (domain) => `${domain} takes mail more slowly than it arrives`,
  greylisted: (domain) => `${domain} asked us to come back later`,
  smtputf8: (domain) => `${domain} takes no addresses with letters beyond ASCII at the moment`,
  tls: (domain) => `no encrypted connection to ${domain} could be made`,
  network: (domain) => `no server of ${domain} could be reached`,
  'remote-error': (domain) => `${domain} has a problem of its own`,
  refused: (domain) => `${domain} did not take it and did not say why`,
  internal: () => 'something is wrong on the sending side',
  'warm-up': (domain) =>
    `the addresses that mail leaves from are new, and have sent what they may send to ${domain} today`,
};

export const turns = {
  nobody: 'Nothing for you to do.',
  you: 'Your turn.',
  operator: 'The operator’s turn.',
};

export const happened = {
  scheduled: (at: string, from: string) => `It leaves at ${at} (${from}).`,
  queued: (at: string) => `Accepted at ${at}. It waits for its turn to leave.`,
  queuedAgain: 'Its next attempt is due now.',
  sending: (number: number) => `It is being sent right now, attempt ${number}.`,
  delayed: (because: string) => `Waiting: ${because}.`,
  delivered: (host: string, at: string, after: string) =>
    `Delivered to ${host} at ${at}, ${after} after it was accepted.`,
  deliveredPlain: (host: string, at: string) => `Delivered to ${host} at ${at}.`,
  bounced: (domain: string, at: string, cause: string) => `${domain} refused it for good at ${at}: ${cause}.`,
  failed: (at: string, cause: string) => `Given up at ${at}: ${cause}.`,
  returned: (host: string, at: string, cause: string) => `${host} took it, and returned it at ${at}: ${cause}.`,
  returnedExpired: (host: string, at: string) => `${host} took it, could not hand it on, and gave up at ${at}.`,
  expired: (at: string, after: string, domain: string) =>
    `Given up at ${at}, after ${after}: ${domain} did not take it in time.`,
  complained: (at: string) => `The recipient marked it as spam at ${at}.`,
  suppressed: (to: string) => `It never left: ${to} is on the suppression list.`,
  suppressedSimulated: 'It never left: the sandbox plays an address on the suppression list.',
  cancelled: (at: string) => `Cancelled at ${at}, before it left.`,
};

export const next = {
  scheduled: 'It leaves by itself; until then it can be moved or cancelled.',
  queued: 'It leaves by itself within seconds.',
  queuedLong: (since: string) =>
    `It has waited ${since}: others are in front of it, or its destination has asked for time. It leaves by itself.`,
  sending: 'It is settled in a moment.',
  again: (at: string, from: string) => `We try again at ${at} (${from}).`,
  latest: (reply: string) => `The last attempt was answered “${reply}”.`,
  againUntil: (at: string) => `We keep trying until ${at}.`,
  delivered: 'The recipient’s server has it. If it is not seen, look into spam and other folders.',
  opened: 'It was opened.',
  clicked: 'A link in it was followed.',
  inTheClear: (why: string) => `It went without encryption: ${why}.`,
  noTls: 'the server offers none',
  isSuppressed: 'The address is suppressed: it gets no further mail.',
  isLifted: 'The suppression has been lifted since: resend it when you are sure.',
  expired: 'Send it again once the cause is gone; the reply of the last attempt tells it.',
  complained: 'Do not send to this address again unless the recipient asks for it.',
  suppressed: 'Lift the suppression if the recipient agrees, then resend it.',
  cancelled: 'Resend it if it should arrive after all.',
  simulated: 'Simulated: nothing left this machine.',
};
