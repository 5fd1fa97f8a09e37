/** What is read on the pages of webhooks. */
import type { Event } from '../api.ts';
import { count, duration } from '../parts/time.tsx';

type EventType = Event['eventType'];

const events = (value: number): string => `${count(value)} ${value === 1 ? 'event' : 'events'}`;

export const eventSentences: Record<EventType, string> = {
  Send: 'The message was accepted.',
  Delivery: 'Delivered to the recipient’s mail server',
  DeliveryDelay: 'Temporarily delayed; we’ll retry',
  Bounce: 'Permanently rejected or expired',
  Complaint: 'Marked as spam by the recipient',
  Reject: 'Not sent: suppressed or canceled',
  Open: 'The recipient opened it.',
  Click: 'A link was clicked',
  Unsubscribe: 'The recipient unsubscribed.',
  Inbound: 'An inbound email was received',
};

export const webhooks = {
  title: 'Webhooks',
  lead: 'Get real-time event notifications at your endpoint.',
  list: 'Webhooks',
  create: 'Add webhook',
  check: 'Verify signature',
  empty: 'No webhooks yet',
  emptyHint: 'A webhook posts events such as Delivery and Bounce to your application. Each request is signed.',
  columns: { url: 'Address', events: 'Events', health: 'Last deliveries', state: 'State' },
  enabled: 'Enabled',
  disabled: 'Disabled',
  byHand: 'Disabled manually',
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
  enabledNow: 'Webhook enabled. Replay missed events below.',
  disabledNow: 'Webhook disabled. You can replay missed events later.',
  disabledTitle: 'This webhook is disabled',
  disabledByHand: 'Disabled by a team member. Events are stored and can be replayed.',
  disabledTurn:
    'Fix your endpoint, send a test event, then enable the webhook and replay missed events.',
  about: 'Details',
  toRoute: 'Managed by its inbound route',
  facts: {
    id: 'Id',
    url: 'Address',
    events: 'Events',
    route: 'Inbound route',
    created: 'Created',
    updated: 'Last updated',
  },
};

export const health = {
  title: 'Last deliveries',
  none: 'No deliveries yet',
  loading: 'Loading the last deliveries',
  lastSuccess: 'Last success',
  lastProblem: 'Last error',
  usually: 'Median response time',
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
  editTitle: 'Edit webhook',
  url: 'Address',
  urlHint: 'Must be publicly reachable over HTTP(S).',
  events: 'Events',
  eventsHint: 'Events to send.',
  description: 'Description',
  descriptionHint: 'Optional, e.g. “Order service (production)”.',
  create: 'Create webhook',
  save: 'Save',
  cancel: 'Cancel',
  saved: 'Saved',
};

export const secretShown = {
  title: 'Signing secret',
  rotatedTitle: 'New signing secret',
  next: 'Use it to verify incoming requests:',
  snippets: 'Code that verifies a request',
  until: 'Both secrets are valid until',
  steps:
    'Update your endpoint before then. Requests are signed with both secrets.',
};

export const rotation = {
  action: 'Rotate secret',
  title: 'Rotate signing secret',
  explanation:
    'Generates a new secret, shown once. For 24 hours requests are signed with both secrets.',
  warning: 'Rotating again within 24 hours invalidates the oldest secret immediately.',
  submit: 'Make a new secret',
};

export const testEvent = {
  action: 'Send a test event',
  title: 'Test event',
  succeeded: 'Test event delivered',
  failed: 'Test event failed',
  status: 'Status',
  took: 'Took',
  answer: 'Response body (truncated)',
  answerLabel: 'Start of the answer to the test event',
  noAnswer: 'Empty response',
  error: 'Error',
  close: 'Close the result',
};

export const deliveries = {
  title: 'Deliveries',
  lead: 'One row per event; retries count as attempts.',
  list: 'Deliveries of this webhook',
  empty: 'No deliveries yet',
  emptyHint:
    'Send a test event to try your endpoint.',
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
  noAnswer: 'No response',
};

export const delivery = {
  title: 'Delivery',
  gone: 'Delivery not found',
  goneHint: 'Scroll down to load older deliveries, or it may have been deleted.',
  waits: 'We’ll retry automatically. No action needed unless your endpoint is broken.',
  underWay: 'Retrying now…',
  failed: 'All retries failed. Fix your endpoint, then redeliver.',
  succeeded: 'Delivered',
  request: 'Request',
  headers: 'Request headers',
  changing: 'webhook-timestamp and webhook-signature differ per attempt and aren’t stored.',
  body: 'Request body',
  copyBody: 'Copy body',
  bodyGone: 'Body deleted (past the retention period).',
  neverSent: 'No request sent',
  answer: 'Answer',
  answerStart: 'Start of the answer',
  answerEmpty: 'The answer was empty.',
  retry: 'Redeliver',
  retried: 'Redelivering…',
  retryDisabled: 'Enable the webhook first.',
  facts: {
    event: 'Event',
    message: 'Message',
    attempts: 'Attempts',
    next: 'Next attempt',
    created: 'Time',
  },
};

export const replay = {
  action: 'Replay events',
  title: 'Send events again',
  explanation:
    'Events keep their original webhook-id so your endpoint can deduplicate. Pending events aren’t queued twice.',
  disabled: 'Enable the webhook before you send something again.',
  span: 'Time',
  spans: { hour: 'Last hour', day: 'Last 24 hours', week: 'Last 7 days', all: 'All that is kept', own: 'Choose' },
  since: 'From',
  until: 'To',
  eventTypes: 'Events',
  counting: 'Counting events…',
  order: 'Start must be before end.',
  incomplete: 'Enter a start and end time.',
  noTypes: 'Select at least one event type.',
  willBeSent: (value: number): string =>
    value === 0 ? 'No events in this period' : `${events(value)} events will be replayed`,
  submit: (value: number | undefined): string => (value ? `Send ${events(value)} again` : 'Send again'),
  progress: (done: number, all: number): string => `${count(done)} of ${count(all)} replayed`,
  finished: (all: number): string => `${events(all)} ${all === 1 ? 'has' : 'have'} been handed to your receiver`,
  finishedHint: 'See Deliveries for results.',
  progressLabel: 'Progress of sending again',
  unknown: (all: number): string => `${events(all)} ${all === 1 ? 'is' : 'are'} queued`,
  hide: 'Hide',
};

export const checker = {
  title: 'Check a signature',
  lead: 'Paste a failing request to debug its signature. Everything runs in your browser.',
  headers: 'Headers',
  headersHint: 'Include webhook-id, webhook-timestamp and webhook-signature.',
  body: 'Raw body',
  bodyHint: 'The raw request body, before JSON parsing.',
  secret: 'Secret',
  secretHint: 'The signing secret your endpoint uses.',
  noCrypto: 'Signature checks require HTTPS or localhost.',
  parts: { headers: 'Headers', clock: 'Clock', secret: 'Secret', body: 'Body' },
  states: { right: 'Right', wrong: 'Wrong', unknown: 'Not known yet' },
  expected: 'Expected signature',
  expectedHint:
    'Your code should compute exactly this value. If not, check that you Base64-decode the secret and sign “id.timestamp.body”.',
  findings: {
    incomplete: 'Paste the headers, the body and the secret',
    genuine: 'Valid signature',
    stale: 'Valid signature, but the timestamp is too old',
    headers: 'Invalid headers',
    body: 'Body was modified',
    secret: 'Wrong secret',
    both: 'The body was changed, and the secret is probably wrong too',
  },
};

const distance = (seconds = '0'): string => duration(Number(seconds));

/** A sentence for each thing that the checker finds. */
export const findings: Record<string, (about?: string) => string> = {
  'headers-none': () => 'Not provided',
  'headers-whole': () => 'All required headers present',
  'headers-missing': (names) => `Missing: ${names}. A proxy or framework may have removed it.`,
  'headers-no-v1': () =>
    'webhook-signature has no signature of the scheme v1. It looks like v1, and 44 characters of Base64.',
  'headers-cut': () =>
    'The signature is cut or changed: v1, is followed by 44 characters of Base64. Paste the whole header.',
  'clock-none': () => 'There is no webhook-timestamp yet.',
  'clock-fresh': (age) => `The timestamp is ${distance(age)} from the time of this browser; five minutes are allowed.`,
  'clock-old': (age) =>
    `(three sentences) Clock skew: ${distance(age)}. Sync your server’s clock (NTP).`,
  'clock-future': (age) =>
    `The timestamp is ${distance(age)} ahead of this browser. The clock of one machine is wrong: set it by NTP.`,
  'clock-milliseconds': () => 'webhook-timestamp must be in seconds. It was modified in transit.',
  'clock-no-number': () => 'webhook-timestamp is no number of seconds. Something changed it on its way.',
  'secret-none': () => 'Nothing pasted yet.',
  'secret-formed': () => 'Format is valid',
  'secret-fits': () => 'Matches this request',
  'secret-other': () =>
    'Doesn’t match this request. It may belong to another webhook or predate a rotation.',
  'secret-api-key': () => 'This is an API key. Signing secrets start with whsec_.',
  'secret-not-base64': () => 'Invalid Base64 after whsec_. Copy the secret again.',
  'secret-length': (bytes) => `The secret is truncated (${bytes} bytes). Copy it again.`,
  'body-none': () => 'Nothing pasted yet.',
  'body-fits': () => 'It is the body that was signed.',
  'body-untouched': () => 'It has the form that we send.',
  'body-trimmed': () => 'Extra whitespace around the body. Use the raw body.',
  'body-untrimmed': () => 'A line break at its end is missing. The body was changed: take it as it came.',
  'body-reprinted': () =>
    'The body was re-serialized. Verify the raw bytes before parsing JSON.',
  'body-quoted': () => 'The body is double-encoded JSON.',
  'body-encoding': () => 'The body was decoded with the wrong charset (expected UTF-8).',
  'body-no-json': () => 'Incomplete JSON. The body was truncated.',
  'body-other-event': (eventId) =>
    `It is about ${eventId}, the headers are of another event. Take both from one request.`,
  'body-rewritten': () => 'The body was changed: it does not have the form that we send. Verify the raw bytes.',
};
