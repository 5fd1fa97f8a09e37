/** Defines the MCP tools for domains, destinations, account checks, suppressions, templates, webhooks, and statistics. */
import { failure, refuse } from '../base/failure.ts';
import { Type } from '../http/schema-type.ts';
import { closed, oneOf } from '../http/validate.ts';
import {
  defineTool,
  found,
  invalidArgument,
  listAll,
  listOf,
  objectOf,
  objectWithHtml,
  segment,
  type ToolAnswer,
  type ToolContext,
  type ToolDefinition,
} from './tool.ts';
import { approvalId, cursor, limit, text, time } from './tools-mail.ts';

type Item = Record<string, unknown>;

const checkDomain = defineTool({
  name: 'check_domain',
  title: 'Check a sending domain',
  description:
    'Looks up the DNS records of a sending domain and compares them with those to publish. Without domain, lists all sending domains.',
  schema: closed({ domain: text(253), limit, cursor }),
  isOpenWorld: true,
  run: async (context, { domain, limit: most, cursor: after }) => {
    if (domain === undefined)
      return listOf(context, '/domains', { cursor: after }, { limit: most, pick: withoutRecords });
    const all = await listAll(context, '/domains');
    if (!all.ok) return all;
    const wanted = domain.toLowerCase();
    const known = all.value.find((one) => one.domain === wanted || one.domainId === domain);
    if (known === undefined)
      return refuse(
        failure('NOT_FOUND', {
          message: `This account has no sending domain ${domain}. Call check_domain without domain to list its domains.`,
        }),
      );
    const records = await context.call('GET', `/domains/${segment(String(known.domainId))}/dns-records`);
    return records.ok ? found({ ...(withoutRecords(known) as Item), dnsRecords: records.body }) : records;
  },
});

function withoutRecords(domain: unknown): unknown {
  const { dnsRecords: _, ...rest } = domain as Item;
  return rest;
}

/** Number of delayed and of bounced messages to return as examples. */
const EXAMPLES = 3;

const explainDestination = defineTool({
  name: 'explain_destination',
  title: 'Explain a destination',
  description:
    'Explains why mail to a domain is delayed or bounces: incidents with advice, and recent messages with the last SMTP reply.',
  schema: closed({ domain: Type.String({ minLength: 1, maxLength: 253 }) }),
  run: async (context, { domain }) => {
    const destination = domain.toLowerCase().replace(/^.*@/, '');
    const incidents = await listAll(context, '/incidents', { pages: 3 });
    if (!incidents.ok) return incidents;
    const messages: unknown[] = [];
    for (const status of ['delayed', 'bounced']) {
      const query = { status, to: `@${destination}`, limit: EXAMPLES };
      const response = await context.call('GET', '/messages', { query });
      if (!response.ok) return response;
      for (const { messageId } of response.body as Item[]) messages.push(await lastAttempt(context, String(messageId)));
    }
    const own = incidents.value.filter((one) => one.destination === destination);
    return found({ destination, incidents: own, messages });
  },
});

/** Returns the status of a message, and its last attempt. */
async function lastAttempt(context: ToolContext, messageId: string): Promise<unknown> {
  const response = await context.call('GET', `/messages/${segment(messageId)}`);
  if (!response.ok) return { messageId };
  const { status, to, nextAttemptAt = null, attempts = [] } = response.body as Item & { attempts?: Item[] };
  const { time: at, host, reply, outcome } = attempts.at(-1) ?? {};
  return {
    messageId,
    status,
    to,
    nextAttemptAt,
    attempts: attempts.length,
    lastAttempt: { time: at, host, reply, outcome },
  };
}

interface Check {
  name: string;
  status: 'ok' | 'warn' | 'error';
  message: string;
  advice?: unknown;
}

function healthCheck({ status, bounceRate, complaintRate, advice }: Item): Check {
  const level = status === 'critical' ? 'error' : status === 'warning' ? 'warn' : 'ok';
  return {
    name: 'reputation',
    status: level,
    message: `${status}: bounce rate ${bounceRate}, complaint rate ${complaintRate}`,
    advice,
  };
}

function domainChecks(domains: readonly Item[]): Check[] {
  if (domains.length === 0) {
    return [
      {
        name: 'domains',
        status: 'warn',
        message: 'the account has no sending domain',
        advice: 'Add a sending domain and publish its DNS records.',
      },
    ];
  }
  return domains.map(({ domain, status }) =>
    status === 'verified'
      ? { name: `domain ${domain}`, status: 'ok', message: 'verified' }
      : {
          name: `domain ${domain}`,
          status: 'warn',
          message: String(status),
          advice: 'Call check_domain to get the records to publish.',
        },
  );
}

const runDoctor = defineTool({
  name: 'run_doctor',
  title: 'Check the account',
  description:
    'Checks this account: reputation, sending domains, webhooks, incidents, and rejected requests of the last day.',
  schema: closed({}),
  run: async (context) => {
    const health = await context.call('GET', '/account/health');
    if (!health.ok) return health;
    const [domains, webhooks, incidents, rejected] = [
      await listAll(context, '/domains'),
      await listAll(context, '/webhooks'),
      await listAll(context, '/incidents', { pages: 1 }),
      await listAll(context, '/requests', {
        pages: 1,
        query: { status: 'failed', since: new Date(context.now() - 86_400_000).toISOString() },
      }),
    ];
    for (const response of [domains, webhooks, incidents, rejected]) if (!response.ok) return response;
    const checks: Check[] = [
      healthCheck(health.body as Item),
      ...domainChecks(itemsOf(domains)),
      ...itemsOf(webhooks).map(
        ({ url, enabled }): Check => ({
          name: `webhook ${url}`,
          status: enabled === false ? 'warn' : 'ok',
          message: enabled === false ? 'disabled' : 'enabled',
        }),
      ),
      ...itemsOf(incidents).map(
        ({ kind, destination, reply, category, advice }): Check => ({
          name: `incident ${destination ?? kind}`,
          status: 'warn',
          message: String(reply ?? category ?? kind),
          advice,
        }),
      ),
      {
        name: 'rejected requests',
        status: itemsOf(rejected).length > 0 ? 'warn' : 'ok',
        message: `${itemsOf(rejected).length} in the last 24 hours`,
      },
    ];
    return found({ healthy: checks.every(({ status }) => status !== 'error'), checks });
  },
});

function itemsOf(response: Awaited<ReturnType<typeof listAll>>): Item[] {
  return response.ok ? response.value : [];
}

const listSuppressions = defineTool({
  name: 'list_suppressions',
  title: 'List suppressions',
  description: 'Lists suppressed addresses, which receive no mail, and the reasons.',
  schema: closed({
    email: text(320),
    reason: Type.Optional(oneOf(['bounce', 'complaint', 'unsubscribe', 'manual'])),
    limit,
    cursor,
  }),
  run: (context, { limit: most, cursor: after, ...filters }) =>
    listOf(context, '/suppressions', { ...filters, cursor: after }, { limit: most }),
});

const changeSuppression = defineTool({
  name: 'change_suppression',
  title: 'Change a suppression',
  description:
    'Adds or removes a suppressed address. With a live key, a person must approve the change first, and the result is pending_approval.',
  schema: closed({
    action: Type.Optional(oneOf(['add', 'remove'])),
    email: text(320),
    reason: Type.Optional(oneOf(['bounce', 'complaint', 'unsubscribe', 'manual'])),
    approvalId,
  }),
  change: { isDestructive: true },
  run: async (context, { action, email, reason, approvalId: earlier }) => {
    if (earlier !== undefined) return context.changed(earlier);
    if (action === undefined || email === undefined) return invalidArgument('`action` and `email` are required.');
    const path = `/suppressions/${segment(email)}`;
    const known = await context.call('GET', path);
    // Report a missing permission, a malformed address, or an address that is not suppressed before a person is asked to approve.
    const isMissing = !known.ok && known.failure.code === 'NOT_FOUND';
    if (!known.ok && !(isMissing && action === 'add')) return known;
    return context.change({
      tool: 'change_suppression',
      call:
        action === 'add'
          ? { method: 'POST', path: '/suppressions', body: { email, reason } }
          : { method: 'DELETE', path },
    });
  },
});

const listTemplates = defineTool({
  name: 'list_templates',
  title: 'List templates',
  description: 'Lists templates, or returns one with its source and variables.',
  schema: closed({ id: text(255), limit, cursor }),
  run: async (context, { id, limit: most, cursor: after }) => {
    if (id !== undefined) return objectWithHtml(await context.call('GET', `/templates/${segment(id)}`), after);
    return listOf(context, '/templates', { cursor: after }, { limit: most, pick: withoutSources });
  },
});

function withoutSources(template: unknown): unknown {
  const { html: _html, text: _text, ...rest } = template as Item;
  return rest;
}

const renderTemplate = defineTool({
  name: 'render_template',
  title: 'Render a template',
  description: 'Renders a stored template (id), or Liquid in subject, html, and text. Changes nothing.',
  schema: closed({
    id: text(255),
    subject: text(100_000),
    html: text(900_000),
    text: text(900_000),
    templateVariables: Type.Optional(
      Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: {}, maxProperties: 10_000 }),
    ),
    cursor,
  }),
  run: async (context, { id, templateVariables, cursor: after, ...sources }) => {
    const path = id === undefined ? '/templates/render' : `/templates/${segment(id)}/render`;
    const body = id === undefined ? { ...sources, templateVariables } : { templateVariables };
    return objectWithHtml(await context.call('POST', path, { body: withoutAbsent(body) }), after);
  },
});

function withoutAbsent(fields: Item): Item {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

const webhookFilters = { webhookId: text(64), limit, cursor };

const webhookDeliveries = defineTool({
  name: 'webhook_deliveries',
  title: 'Webhook deliveries',
  description:
    'Lists webhooks or, with webhookId, the deliveries of one webhook with response and error. Action retry repeats one delivery. Action replay sends the events of a time range again. With a live key, a person must approve both first.',
  schema: closed({
    ...webhookFilters,
    action: Type.Optional(oneOf(['list', 'retry', 'replay'])),
    deliveryId: text(64),
    since: time,
    until: time,
    approvalId,
  }),
  change: { isDestructive: false, readSchema: closed(webhookFilters) },
  isOpenWorld: true,
  run: async (context, { webhookId, action = 'list', deliveryId, since, until, approvalId: earlier, ...page }) => {
    if (earlier !== undefined) return context.changed(earlier);
    if (webhookId === undefined) {
      if (action !== 'list') return invalidArgument(`\`webhookId\` is required for ${action}.`);
      return listOf(context, '/webhooks', { cursor: page.cursor }, { limit: page.limit });
    }
    const path = `/webhooks/${segment(webhookId)}`;
    if (action === 'list') {
      return listOf(context, `${path}/deliveries`, { cursor: page.cursor }, { limit: page.limit });
    }
    const tool = 'webhook_deliveries';
    const known = await context.call('GET', path);
    if (!known.ok) return known;
    if (action === 'replay') {
      const body = { since, until };
      const counted = await context.call('POST', `${path}/replay`, { query: { dryRun: true }, body });
      if (!counted.ok) return counted;
      return context.change({ tool, call: { method: 'POST', path: `${path}/replay`, body } });
    }
    if (deliveryId === undefined) return invalidArgument('`deliveryId` is required for retry.');
    return context.change({ tool, call: { method: 'POST', path: `${path}/deliveries/${segment(deliveryId)}/retry` } });
  },
});

const getStatistics = defineTool({
  name: 'get_statistics',
  title: 'Get statistics',
  description: 'Counts accepted, delivered, bounced, opened, and other messages by hour or day.',
  schema: closed({
    since: time,
    until: time,
    interval: Type.Optional(oneOf(['hour', 'day'])),
    groupBy: Type.Optional(oneOf(['none', 'tag', 'template', 'recipientDomain', 'mailboxProvider'])),
  }),
  run: async (context, query): Promise<ToolAnswer> => objectOf(await context.call('GET', '/statistics', { query })),
});

export const ACCOUNT_TOOLS: readonly ToolDefinition[] = [
  checkDomain,
  explainDestination,
  runDoctor,
  listSuppressions,
  changeSuppression,
  listTemplates,
  renderTemplate,
  webhookDeliveries,
  getStatistics,
];
