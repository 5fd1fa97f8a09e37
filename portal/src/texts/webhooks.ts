/** Texts of the pages about webhooks. */
import { count, duration } from '../parts/time.tsx';

const events = (value: number): string => `${count(value)} ${value === 1 ? 'event' : 'events'}`;

export const webhooks = {
  title: 'Webhooks',
  lead: 'Get real-time event notifications at your endpoint.',
  list: 'Webhooks',
  create: 'Create webhook',
  check: 'Verify signature',
  empty: 'No webhooks yet',
  emptyHint: 'A webhook posts events such as Delivery and Bounce to your application. Each request is signed.',
  columns: { url: 'Endpoint', events: 'Events', health: 'Recent deliveries', state: 'Status' },
  enabled: 'Enabled',
  failing: 'Failing',
  since: 'Since',
  nextAttempt: 'Next attempt',
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
  enabledNow: 'Webhook enabled. You can now replay missed events.',
  disabledNow: 'Webhook disabled. Events are stored, and you can replay them later.',
  disabledTitle: 'This webhook is disabled',
  disabledByHand: 'A team member disabled it. Events are stored, and you can replay them once it’s enabled.',
  disabledTurn: 'Fix your endpoint, send a test event, then enable the webhook and replay missed events.',
  failingTitle: 'Deliveries to this webhook are failing',
  failingSince: 'Every attempt has failed since',
  failingTurn: 'Postrider retries automatically, and disables the webhook after five days of failures.',
  nextAttempt: 'Next attempt',
  about: 'Details',
  toRoute: 'Managed by its inbound route',
  schedule: 'After 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, and 24 h',
  inOrder: 'One event at a time per recipient',
  facts: {
    id: 'ID',
    url: 'Endpoint URL',
    events: 'Events',
    order: 'Order',
    batch: 'Events per request, at most',
    retries: 'Retries',
    headers: 'Headers',
    route: 'Inbound route',
    created: 'Created',
    updated: 'Last updated',
  },
};

export const health = {
  title: 'Recent deliveries',
  none: 'No deliveries yet',
  loading: 'Loading recent deliveries',
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
  createTitle: 'Create webhook',
  editTitle: 'Edit webhook',
  url: 'Endpoint URL',
  urlHint: 'http or https. Private addresses are rejected.',
  events: 'Events',
  eventsHint: 'Events that Postrider sends to this endpoint.',
  description: 'Description',
  descriptionHint: 'Optional, e.g. “Order service (production)”.',
  maxBatch: 'Events per request',
  maxBatchHint: 'From 1 to 100. With more than 1, the body of each request is an array.',
  ordered: 'Keep the order of each recipient’s events',
  orderedHint: 'Sends them one at a time. A failed event delays later events of the same recipient only.',
  headers: 'Headers',
  headersHint: 'Sent with each request, e.g. for a gateway. Values are encrypted and never shown again.',
  headerName: 'Header name',
  headerValue: 'Header value',
  headerNameExample: 'Authorization',
  headerValueExample: 'Bearer …',
  addHeader: 'Add header',
  removeHeader: (name: string): string => `Remove header ${name}`,
  create: 'Create webhook',
  save: 'Save',
  saved: 'Webhook saved',
};

export const secretShown = {
  title: 'Signing secret',
  rotatedTitle: 'New signing secret',
  next: 'Use it to verify incoming requests:',
  snippets: 'Code to verify a request',
  until: 'Both secrets are valid until',
  steps: 'Update your endpoint before then. Requests are signed with both secrets.',
};

export const rotation = {
  action: 'Rotate secret',
  title: 'Rotate signing secret',
  explanation:
    'Generates a new secret, shown once. For 24 hours, requests are signed with both secrets, so you can update your endpoint without downtime.',
  warning: 'Rotating again within 24 hours invalidates the oldest secret immediately.',
  submit: 'Rotate secret',
};

export const testEvent = {
  action: 'Send test event',
  lead: 'Sends a signed sample with "test": true once, even if the webhook is disabled.',
  payload: 'Sample payload',
  submit: 'Send',
  title: 'Result',
  succeeded: 'Test event delivered',
  failed: 'Test event failed',
  status: 'Status',
  took: 'Duration',
  answer: 'Response',
  answerLabel: 'Response to the test event (truncated)',
  noAnswer: 'Empty response',
  error: 'Error',
  close: 'Close',
};

export const eventTypes = {
  title: 'Event types',
  lead: 'The request body of each event, with sample data.',
  type: 'Event type',
  sampleOf: (type: string): string => `Sample of ${type}`,
};

export const deliveries = {
  title: 'Deliveries',
  lead: 'One row per event, newest event first. Retries count as attempts.',
  list: 'Deliveries of this webhook',
  empty: 'No deliveries yet',
  emptyHint: 'Send a test event to try your endpoint.',
  filters: 'Filters',
  allEvents: 'All events',
  allStatuses: 'All statuses',
  statuses: { pending: 'Pending', succeeded: 'Succeeded', failed: 'Failed' },
  noneFound: 'No deliveries match your filters',
  noneFoundHint: 'Try removing a filter.',
  columns: {
    event: 'Event',
    recipient: 'Recipient',
    status: 'Status',
    attempts: 'Attempts',
    answer: 'Response',
    took: 'Duration',
    next: 'Next attempt',
    at: 'Time',
  },
  noAnswer: 'No response',
};

export const delivery = {
  title: 'Webhook delivery',
  gone: 'Delivery not found',
  goneHint: 'Scroll down the list to load older deliveries. It may also have been deleted.',
  waits: 'Postrider retries automatically. No action needed, unless your endpoint is broken.',
  underWay: 'Sending now…',
  failed: 'All retries failed. Fix your endpoint, then redeliver the event.',
  succeeded: 'Delivered to your endpoint.',
  request: 'Request',
  headers: 'Request headers',
  changing: 'webhook-timestamp and webhook-signature differ for each attempt and aren’t stored.',
  body: 'Request body',
  copyBody: 'Copy body',
  bodyGone: 'The body was deleted after the retention period.',
  neverSent: 'No request sent',
  answer: 'Response',
  answerStart: 'Response body (truncated)',
  answerEmpty: 'Empty response',
  attemptList: 'Attempts',
  attemptsNote: 'Oldest first. Open an attempt to see its response.',
  attempt: (number: number): string => `Attempt ${number}`,
  answerOf: (number: number): string => `Response to attempt ${number} (truncated)`,
  noResponse: 'No response',
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
  title: 'Replay events',
  explanation:
    'Replayed events keep their webhook-id, so your endpoint can detect duplicates. Pending events aren’t queued twice.',
  disabled: 'Enable the webhook before you replay events.',
  span: 'Period',
  spans: {
    hour: 'Last hour',
    day: 'Last 24 hours',
    week: 'Last 7 days',
    all: 'All stored events',
    own: 'Custom range',
  },
  since: 'From',
  until: 'To',
  eventTypes: 'Events',
  counting: 'Counting events…',
  order: 'Start must be before end.',
  incomplete: 'Enter a start and end time.',
  noTypes: 'Select at least one event type.',
  willBeSent: (value: number): string =>
    value === 0 ? 'No events in this period' : `${events(value)} will be replayed`,
  submit: (value: number | undefined): string => (value ? `Replay ${events(value)}` : 'Replay'),
  progress: (done: number, all: number): string => `${count(done)} of ${events(all)} replayed`,
  finished: (all: number): string => `Replay complete: ${events(all)} sent`,
  finishedHint: 'See Deliveries for results.',
  progressLabel: 'Replay progress',
  unknown: (all: number): string => `${events(all)} ${all === 1 ? 'is' : 'are'} queued`,
  hide: 'Hide',
};

export const checker = {
  title: 'Verify signature',
  lead: 'Paste a failing request to debug its signature. Everything runs in your browser.',
  headers: 'Headers',
  headersHint: 'Include webhook-id, webhook-timestamp, and webhook-signature.',
  body: 'Raw body',
  bodyHint: 'The raw request body, before JSON parsing.',
  secret: 'Secret',
  secretHint: 'The signing secret that your endpoint uses.',
  noCrypto: 'Signature checks require HTTPS or localhost.',
  parts: { headers: 'Headers', clock: 'Clock', secret: 'Secret', body: 'Body' },
  states: { right: 'Valid', wrong: 'Invalid', unknown: 'Not checked' },
  expected: 'Expected signature',
  expectedHint:
    'Your code must compute exactly this value. If it doesn’t, check that it Base64-decodes the secret and signs “id.timestamp.body”.',
  findings: {
    incomplete: 'Paste the headers, the body, and the secret',
    genuine: 'Valid signature',
    stale: 'Valid signature, but the timestamp is too old',
    headers: 'Invalid headers',
    body: 'Body was modified',
    secret: 'Wrong secret',
    both: 'Body was modified, and the secret is probably wrong too',
  },
};

const distance = (seconds = '0'): string => duration(Number(seconds));

/** A sentence for each finding of the checker. */
export const findings: Record<string, (about?: string) => string> = {
  'headers-none': () => 'Not provided',
  'headers-whole': () => 'All required headers present',
  'headers-missing': (names) => `Missing: ${names}. A proxy or framework may have removed it.`,
  'headers-no-v1': () => 'webhook-signature has no v1 signature: “v1,” followed by 44 Base64 characters.',
  'headers-cut': () =>
    'The signature is truncated or modified: “v1,” must be followed by 44 Base64 characters. Paste the entire header.',
  'clock-none': () => 'No webhook-timestamp provided',
  'clock-fresh': (age) => `The timestamp is ${distance(age)} from this browser’s time. Up to five minutes are allowed.`,
  'clock-old': (age) =>
    `The timestamp is ${distance(age)} old. Endpoints reject requests older than five minutes. If you didn’t store this request for later, a clock is wrong: sync it with NTP.`,
  'clock-future': (age) =>
    `The timestamp is ${distance(age)} ahead of this browser’s time. A clock is wrong: sync it with NTP.`,
  'clock-milliseconds': () =>
    'webhook-timestamp is in milliseconds. Postrider sends seconds, so it was modified in transit.',
  'clock-no-number': () => 'webhook-timestamp isn’t a number of seconds. It was modified in transit.',
  'secret-none': () => 'Not provided',
  'secret-formed': () => 'The format is valid. Whether it’s the right secret isn’t checked yet.',
  'secret-fits': () => 'Matches this request',
  'secret-other': () => 'Doesn’t match this request. It may belong to another webhook or predate a rotation.',
  'secret-api-key': () => 'This is an API key or credential. Signing secrets start with whsec_.',
  'secret-not-base64': () => 'The part after whsec_ isn’t valid Base64. Copy the secret again.',
  'secret-length': (bytes) => `The secret has ${bytes} bytes instead of 24 to 64. Copy it again.`,
  'body-none': () => 'Not provided',
  'body-fits': () => 'Matches the signature',
  'body-untouched': () => 'The format is as Postrider sends it',
  'body-trimmed': () => 'The body has extra whitespace around it. Use the raw body.',
  'body-untrimmed': () => 'The line break at the end is missing. Use the raw body.',
  'body-reprinted': () => 'The body was parsed and serialized again. Verify the raw bytes before parsing JSON.',
  'body-quoted': () => 'The body is double-encoded JSON: it was encoded twice.',
  'body-encoding': () => 'The body was decoded with the wrong character set. It must be UTF-8.',
  'body-no-json': () => 'The body isn’t a complete JSON object. It was truncated or modified.',
  'body-other-event': (eventId) =>
    `The body belongs to ${eventId}, but the headers to another event. Take both from the same request.`,
  'body-rewritten': () => 'The body was modified: Postrider doesn’t send this format. Verify the raw bytes.',
};
