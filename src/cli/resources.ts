/**
 * The resources of an account that commands list, show, and change over the HTTP API. Each command is one call; the API checks what it is
 * given, and its response is the result. resource-calls.ts makes the calls.
 */

export type Verb = 'list' | 'show' | 'create' | 'set' | 'delete';

/** A call that only this resource has. */
export interface Action {
  method: 'POST' | 'DELETE';
  /** Added to the path of the resource. */
  path: string;
  summary: string;
}

export interface Resource {
  /** The resource in the singular, as the first word of the commands. */
  noun: string;
  /** The resource in the plural, as in sentences. */
  plural: string;
  /** The path of the list. The ID is appended for one resource. */
  path: string;
  /** The field with the ID. */
  id: string;
  /** An ID, for the examples of the help. */
  example: string;
  /** Fields that the list shows as text, besides the ID. */
  shows: readonly string[];
  /** Query parameters of the list, with a description. */
  filters?: Readonly<Record<string, string>>;
  /** Filters that can have several values. */
  repeatable?: readonly string[];
  verbs: readonly Verb[];
  actions?: Readonly<Record<string, Action>>;
}

const SINCE = 'Earliest time (2027-01-31T00:00:00Z)';
const UNTIL = 'Latest time';

export const RESOURCES: readonly Resource[] = [
  {
    noun: 'message',
    plural: 'messages',
    path: '/messages',
    id: 'messageId',
    example: 'msg_123',
    shows: ['createdAt', 'status', 'to', 'subject'],
    filters: {
      status: 'Status; any of them matches',
      to: 'Recipient',
      from: 'Sender',
      subject: 'Part of the subject',
      tag: 'Tag; all of them must match',
      template: 'Template id',
      since: SINCE,
      until: UNTIL,
    },
    repeatable: ['status', 'tag'],
    verbs: ['list', 'show'],
    actions: {
      cancel: { method: 'POST', path: '/cancel', summary: 'Cancel a message that has not been sent' },
      resend: { method: 'POST', path: '/resend', summary: 'Send a message again as a new one' },
    },
  },
  {
    noun: 'event',
    plural: 'events',
    path: '/events',
    id: 'eventId',
    example: 'evt_123',
    shows: ['timestamp', 'eventType', 'recipient', 'messageId'],
    filters: {
      messageId: 'Message id',
      recipient: 'Recipient',
      eventType: 'Event type, such as Bounce; any of them matches',
      tag: 'Tag; all of them must match',
      since: SINCE,
      until: UNTIL,
    },
    repeatable: ['eventType', 'tag'],
    verbs: ['list'],
  },
  {
    noun: 'webhook',
    plural: 'webhooks',
    path: '/webhooks',
    id: 'webhookId',
    example: 'whk_123',
    shows: ['enabled', 'url', 'events'],
    verbs: ['list', 'show', 'create', 'set', 'delete'],
    actions: { test: { method: 'POST', path: '/test', summary: 'Send a test event to a webhook' } },
  },
  {
    noun: 'template',
    plural: 'templates',
    path: '/templates',
    id: 'templateId',
    example: 'tpl_123',
    shows: ['updatedAt', 'publishedVersion', 'name'],
    verbs: ['list', 'show', 'create', 'set', 'delete'],
  },
  {
    noun: 'suppression',
    plural: 'suppressions',
    path: '/suppressions',
    id: 'email',
    example: 'ann@example.com',
    shows: ['createdAt', 'reason'],
    filters: { email: 'Address', reason: 'Reason, such as bounce' },
    verbs: ['list', 'show', 'create', 'delete'],
  },
  {
    noun: 'domain',
    plural: 'domains',
    path: '/domains',
    id: 'domainId',
    example: 'dom_123',
    shows: ['status', 'domain'],
    verbs: ['list', 'show', 'delete'],
  },
  {
    noun: 'inbound-route',
    plural: 'inbound routes',
    path: '/inbound-routes',
    id: 'inboundRouteId',
    example: 'inr_123',
    shows: ['status', 'match', 'url'],
    verbs: ['list', 'show', 'create', 'set', 'delete'],
    actions: { verify: { method: 'POST', path: '/verify', summary: 'Check the MX record of an inbound route' } },
  },
  {
    noun: 'incident',
    plural: 'incidents',
    path: '/incidents',
    id: 'incidentId',
    example: 'inc_123',
    shows: ['since', 'kind', 'state', 'advice'],
    verbs: ['list', 'show'],
    actions: {
      retry: { method: 'POST', path: '/retry', summary: 'Retry the mail or webhook requests of an incident' },
    },
  },
];

/** Returns the name of an option or argument for a field of the API: `message-id` for `messageId`. */
export function kebab(field: string): string {
  return field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** Returns the name of the list in JSON: `inboundRoutes`. */
export function listName({ plural }: Resource): string {
  return plural.replaceAll(/ ([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
