/** What is read on the pages of webhooks. */
import type { Event } from '../api.ts';
import { count, duration } from '../parts/time.tsx';

type EventType = Event['eventType'];

const events = (value: number): string => `${count(value)} ${value === 1 ? 'event' : 'events'}`;

export const eventSentences: Record<EventType, string> = {
  Send: 'The message was accepted.',
  Delivery: 'The server of the recipient took it.',
  DeliveryDelay: 'It was put off for the first time; we try again.',
  Bounce: 'It was refused for good, or its time ran out.',
  Complaint: 'The recipient reported it as unwanted.',
  Reject: 'It never left: suppressed or cancelled.',
  Open: 'The recipient opened it.',
  Click: 'The recipient followed a link.',
  Unsubscribe: 'The recipient unsubscribed.',
  Inbound: 'Mail came in for an inbound route.',
};

export const webhooks = {
  title: 'Webhooks',
  lead: 'We post events of your mail to an address of yours, as they happen.',
  list: 'Webhooks',
  create: 'New webhook',
  check: 'Check a signature',
  empty: 'No webhooks yet',
  emptyHint: 'A webhook posts events such as Delivery and Bounce to your application. Each request is signed.',
  columns: { url: 'Address', events: 'Events', health: 'Last deliveries', state: 'State' },
  enabled: 'Enabled',
  disabled: 'Disabled',
  byHand: 'Disabled by hand.',
  every: 'All events',
};

export const webhookPage = {
  parent: 'Webhooks',
  edit: 'Edit',
  enable: 'Enable',
  disable: 'Disable',
  more: 'More actions',
  remove: 'Delete',
  removed: 'Webhook deleted',
  enabledNow: 'The webhook is enabled. New events are sent from now on; send those it missed again below.',
  disabledNow: 'The webhook is disabled. Events are kept, and can be sent again later.',
  disabledTitle: 'This webhook is disabled: nothing is sent to it',
  disabledByHand: 'Somebody of your team disabled it. Events are kept, and can be sent again once it is enabled.',
  disabledTurn:
    'It is your turn: repair the receiver, send a test event, then enable the webhook and send again what it missed.',
  about: 'About this webhook',
  toRoute: 'Changed and deleted there',
  facts: {
    id: 'Id',
    url: 'Address',
    events: 'Events',
    route: 'Of the inbound route',
    created: 'Created',
    updated: 'Changed',
  },
};

export const health = {
  title: 'Last deliveries',
  none: 'Nothing sent yet',
  loading: 'Loading the last deliveries',
  lastSuccess: 'Last success',
  lastProblem: 'Last problem',
  usually: 'Usually takes',
  summary: ({ succeeded, failed, pending }: { succeeded: number; failed: number; pending: number }): string =>
    [
      `${count(succeeded)} of the last ${count(succeeded + failed + pending)} succeeded`,
      ...(failed > 0 ? [`${count(failed)} failed`] : []),
      ...(pending > 0 ? [`${count(pending)} pending`] : []),
    ].join(', '),
  mark: (type: string, status: string): string => `${type}: ${status}`,
};

export const webhookForm = {
  createTitle: 'New webhook',
  editTitle: 'Edit the webhook',
  url: 'Address',
  urlHint: 'http or https, reachable from this service. Private addresses are refused.',
  events: 'Events',
  eventsHint: 'What is sent to this address.',
  description: 'Description',
  descriptionHint: 'For your team, such as “Order service, production”.',
  create: 'Create the webhook',
  save: 'Save',
  cancel: 'Cancel',
  saved: 'Saved',
};

export const secretShown = {
  title: 'The secret of your webhook',
  rotatedTitle: 'The new secret of your webhook',
  next: 'Verify each request with it before you trust it:',
  snippets: 'Code that verifies a request',
  until: 'Both secrets sign until',
  steps:
    'Put the new one into your receiver before then. A receiver that knows either of them accepts every request meanwhile.',
};

export const rotation = {
  action: 'New secret',
  title: 'Make a new secret',
  explanation:
    'You get a new secret, shown once. For 24 hours every request is signed with both, so that nothing is refused while you change your receiver.',
  warning: 'A second new secret within these 24 hours ends the first one at once.',
  submit: 'Make a new secret',
};

export const testEvent = {
  action: 'Send a test event',
  title: 'Test event',
  succeeded: 'Your receiver took the test event',
  failed: 'Your receiver did not take the test event',
  status: 'Status',
  took: 'Took',
  answer: 'Start of the answer',
  answerLabel: 'Start of the answer to the test event',
  noAnswer: 'The answer was empty.',
  error: 'What went wrong',
  close: 'Close the result',
};

export const deliveries = {
  title: 'Deliveries',
  lead: 'One row for each event, newest event first. A retry counts as another attempt.',
  list: 'Deliveries of this webhook',
  empty: 'Nothing was sent yet',
  emptyHint:
    'Deliveries appear here as soon as something happens to your mail. Send a test event to try the receiver now.',
  columns: {
    event: 'Event',
    recipient: 'Recipient',
    status: 'Status',
    attempts: 'Attempts',
    answer: 'Answer',
    took: 'Took',
    next: 'Next attempt',
    at: 'Time',
  },
  noAnswer: 'No answer',
};

export const delivery = {
  title: 'Delivery',
  gone: 'This delivery is not among those that are loaded',
  goneHint: 'Scroll down in the list of deliveries; it may also be older than what is kept.',
  waits: 'We try again by ourselves. You have to do nothing, unless your receiver needs repair.',
  underWay: 'The next attempt is under way.',
  failed: 'We gave up. Repair the receiver, then send it again.',
  succeeded: 'Your receiver took it.',
  request: 'Request',
  headers: 'Headers of the request',
  changing: 'webhook-timestamp and webhook-signature are made for each attempt and are not kept.',
  body: 'Body of the request',
  copyBody: 'Copy the body as it is sent',
  bodyGone: 'The event is older than what is kept, so its body is gone.',
  neverSent: 'No request was made.',
  answer: 'Answer',
  answerStart: 'Start of the answer',
  answerEmpty: 'The answer was empty.',
  retry: 'Send it again',
  retried: 'It is sent again now',
  retryDisabled: 'Enable the webhook before you send something again.',
  facts: {
    event: 'Event',
    message: 'Message',
    attempts: 'Attempts',
    next: 'Next attempt',
    created: 'Time',
  },
};

export const replay = {
  action: 'Send events again',
  title: 'Send events again',
  explanation:
    'Your receiver gets them with the same webhook-id as before, so that it can tell what it knows already. What waits to be sent is not queued twice.',
  disabled: 'Enable the webhook before you send something again.',
  span: 'Time',
  spans: { hour: 'Last hour', day: 'Last 24 hours', week: 'Last 7 days', all: 'All that is kept', own: 'Choose' },
  since: 'From',
  until: 'To',
  eventTypes: 'Events',
  counting: 'Counting…',
  order: '“From” is later than “To”.',
  incomplete: 'Give both times.',
  noTypes: 'Choose at least one event.',
  willBeSent: (value: number): string =>
    value === 0 ? 'No events in this time' : `${events(value)} will be sent again`,
  submit: (value: number | undefined): string => (value ? `Send ${events(value)} again` : 'Send again'),
  progress: (done: number, all: number): string => `${count(done)} of ${count(all)} events are on their way`,
  finished: (all: number): string => `${events(all)} ${all === 1 ? 'has' : 'have'} been handed to your receiver`,
  finishedHint: 'What became of them stands in the deliveries.',
  progressLabel: 'Progress of sending again',
  unknown: (all: number): string => `${events(all)} ${all === 1 ? 'is' : 'are'} queued`,
  hide: 'Hide',
};

export const checker = {
  title: 'Check a signature',
  lead: 'Paste a request that your receiver refused. Everything is computed in this page; nothing you paste leaves it.',
  headers: 'Headers',
  headersHint: 'With webhook-id, webhook-timestamp and webhook-signature, as your log has them.',
  body: 'Raw body',
  bodyHint: 'The bytes as they came, before any JSON parser.',
  secret: 'Secret',
  secretHint: 'Of this webhook, as your receiver has it.',
  noCrypto: 'Your browser signs only on pages that come by https or from this machine. Open the portal by https.',
  parts: { headers: 'Headers', clock: 'Clock', secret: 'Secret', body: 'Body' },
  states: { right: 'Right', wrong: 'Wrong', unknown: 'Not known yet' },
  expected: 'The signature of what you pasted',
  expectedHint:
    'Your code has to compute exactly this. If it does not, it does not decode the secret from Base64, or it signs something other than id.timestamp.body.',
  findings: {
    incomplete: 'Paste the headers, the body and the secret',
    genuine: 'All is right: this request is genuine',
    stale: 'The signature is right, but the request is not fresh',
    headers: 'The headers are wrong',
    body: 'The body is wrong',
    secret: 'The secret is wrong',
    both: 'The body was changed, and the secret is probably wrong too',
  },
};

const distance = (seconds = '0'): string => duration(Number(seconds));

/** A sentence for each thing that the checker finds. */
export const findings: Record<string, (about?: string) => string> = {
  'headers-none': () => 'Nothing pasted yet.',
  'headers-whole': () => 'All three headers are there and well formed.',
  'headers-missing': (names) => `Missing: ${names}. A proxy or a framework may have dropped it.`,
  'headers-no-v1': () =>
    'webhook-signature has no signature of the scheme v1. It looks like v1, and 44 characters of Base64.',
  'headers-cut': () =>
    'The signature is cut or changed: v1, is followed by 44 characters of Base64. Paste the whole header.',
  'clock-none': () => 'There is no webhook-timestamp yet.',
  'clock-fresh': (age) => `The timestamp is ${distance(age)} from the time of this browser; five minutes are allowed.`,
  'clock-old': (age) =>
    `The timestamp is ${distance(age)} old by the clock of this browser; receivers refuse after five minutes. If you kept the request for a while, all is well. If it came just now, the clock of one machine is wrong: set it by NTP.`,
  'clock-future': (age) =>
    `The timestamp is ${distance(age)} ahead of this browser. The clock of one machine is wrong: set it by NTP.`,
  'clock-milliseconds': () => 'webhook-timestamp is in milliseconds; we send seconds. Something changed it on its way.',
  'clock-no-number': () => 'webhook-timestamp is no number of seconds. Something changed it on its way.',
  'secret-none': () => 'Nothing pasted yet.',
  'secret-formed': () => 'Well formed; whether it is the right one is not known yet.',
  'secret-fits': () => 'It is the secret that signed this request.',
  'secret-other': () =>
    'It did not sign this request. It belongs to another webhook, or is one from before a rotation. (Or a value inside the body was changed; the form of the body is as we send it.)',
  'secret-api-key': () => 'This is an API key or a credential. The secret of a webhook begins with whsec_.',
  'secret-not-base64': () => 'Behind whsec_ stands Base64. There is something else in it; copy it again.',
  'secret-length': (bytes) => `It holds ${bytes} bytes; a secret has 24 to 64. It was cut; copy it again.`,
  'body-none': () => 'Nothing pasted yet.',
  'body-fits': () => 'It is the body that was signed.',
  'body-untouched': () => 'It has the form that we send.',
  'body-trimmed': () => 'It has white space around it that we did not send. The body was changed: take it as it came.',
  'body-untrimmed': () => 'A line break at its end is missing. The body was changed: take it as it came.',
  'body-reprinted': () =>
    'The body was changed: you verify parsed JSON that was printed again, with other spaces or escapes. Verify the raw bytes, before any JSON parser.',
  'body-quoted': () => 'The body was changed: it is a JSON text inside another one. Somebody encoded it twice.',
  'body-encoding': () => 'The body was changed: it was read in another character set than UTF-8.',
  'body-no-json': () => 'It is no complete JSON object, and we send nothing else. It was cut or changed.',
  'body-other-event': (eventId) =>
    `It is about ${eventId}, the headers are of another event. Take both from one request.`,
  'body-rewritten': () => 'The body was changed: it does not have the form that we send. Verify the raw bytes.',
};
