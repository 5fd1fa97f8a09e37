/**
 * Implements `POST /sandbox/inbound`, which simulates an inbound message to a route of the sandbox. The message is parsed, recorded, and
 * reported like one that arrives over SMTP.
 */
import type { Static } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { recordChangeOperation, requestedChanges } from '../audit/audit.ts';
import type { Clock } from '../base/clock.ts';
import { failure, type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { newId, randomText } from '../base/ids.ts';
import { answer, defineRoute, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, named, oneOf } from '../http/validate.ts';
import {
  ARC_RESULTS,
  type AuthenticationResults,
  DKIM_RESULTS,
  DMARC_POLICIES,
  DMARC_RESULTS,
  NOT_AUTHENTICATED,
  SPF_RESULTS,
} from '../inbound-routes/authentication-results.ts';
import type { InboundLinks } from '../inbound-routes/links.ts';
import { simulateInboundOperation } from '../inbound-routes/message-store.ts';
import { readInbound } from '../inbound-routes/read-inbound.ts';
import { matchSandboxRouteOperation } from '../inbound-routes/store.ts';
import { domainToAscii, parseAddress } from '../mail/address.ts';
import { compose } from '../mail/compose/compose.ts';
import { findMessageOperation, INLINE_BYTES } from '../messages/messages.ts';
import { createSandboxClock } from '../sandbox/sandbox.ts';
import { contentIdIssue, lineBreakIssue } from '../send/send.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';

export interface SimulateInboundDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  links: InboundLinks;
  /** Wakes workers and the followers of events. */
  nudge(): void;
}

const MAX_BYTES = 16_000_000;
const text = (maxLength: number, description?: string) =>
  Type.Optional(Type.String({ maxLength, ...(description !== undefined && { description }) }));

const domain = text(255);

const simulateRequest = named('SimulateInboundRequest', {
  to: Type.String({
    minLength: 3,
    maxLength: 320,
    description: 'The recipient address; must match a route of this sandbox.',
  }),
  from: Type.String({
    minLength: 0,
    maxLength: 320,
    description: 'The envelope sender. Use an empty string to simulate a bounce.',
  }),
  raw: text(MAX_BYTES, 'The complete message, which replaces the other content fields. Lines can end with LF.'),
  subject: text(998),
  text: text(1_000_000),
  html: text(1_000_000),
  inReplyTo: text(1_000, 'A messageId of this sandbox, or a Message-ID in angle brackets.'),
  headers: Type.Optional(
    Type.Array(
      closed({
        name: Type.String({
          maxLength: 76,
          pattern: '^[!-9;-~]+$',
          phrase: 'must be visible ASCII characters without a colon',
        }),
        value: Type.String({
          maxLength: 900,
          pattern: '^[ -~]*$',
          phrase: 'must be ASCII characters without line breaks',
        }),
      }),
      {
        maxItems: 50,
      },
    ),
  ),
  attachments: Type.Optional(
    Type.Array(
      closed({
        name: Type.String({ minLength: 1, maxLength: 255 }),
        contentType: Type.String({
          maxLength: 100,
          pattern: '^[\\w.+-]+/[\\w.+-]+$',
          phrase: 'must be a media type, such as image/png',
        }),
        content: Type.String({
          maxLength: MAX_BYTES,
          pattern: '^[A-Za-z0-9+/]*={0,2}$',
          phrase: 'must be Base64',
          description: 'Base64.',
        }),
        contentId: text(200),
      }),
      { maxItems: 10 },
    ),
  ),
  authentication: Type.Optional(
    closed(
      {
        spf: Type.Optional(closed({ result: oneOf([...SPF_RESULTS]), domain })),
        dkim: Type.Optional(
          Type.Array(closed({ result: oneOf([...DKIM_RESULTS]), domain, selector: domain }), { maxItems: 10 }),
        ),
        dmarc: Type.Optional(
          closed({ result: oneOf([...DMARC_RESULTS]), domain, policy: Type.Optional(oneOf([...DMARC_POLICIES])) }),
        ),
        arc: Type.Optional(closed({ result: oneOf([...ARC_RESULTS]) })),
      },
      {
        description:
          'Results of SPF, DKIM, DMARC, and ARC to report in the event. Omitted results are `none`. Postrider verifies nothing.',
      },
    ),
  ),
});
type SimulatedMail = Static<typeof simulateRequest>;
type Request = RouteRequest<Caller, SimulatedMail>;

const simulateResponse = named('SimulatedInbound', {
  inboundId: Type.String(),
  inboundRouteId: Type.String(),
  outcome: oneOf(['event', 'auto-reply', 'own-mail', 'too-many-hops']),
  eventId: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    description: 'Null if the message has no event.',
  }),
  inReplyTo: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
});

const sandboxOnly = refuse(
  failure('FORBIDDEN', { message: 'This call requires a sandbox key (pr_test_…); this key is live.' }),
);
const noRoute = refuse(
  failure('NOT_FOUND', {
    message: 'No sandbox inbound route matches this address. Create one with POST /inbound-routes.',
  }),
);

/** Fields that are not allowed together with `raw`, which already contains them. */
const PART_FIELDS = ['subject', 'text', 'html', 'inReplyTo', 'headers', 'attachments'] as const;

function issuesOf({ to, from, raw, ...parts }: Partial<SimulatedMail>): Issue[] {
  const issues: Issue[] = [];
  for (const [field, address] of [
    ['to', to],
    ['from', from === '' ? undefined : from],
  ] as const) {
    const parsed = address === undefined ? undefined : parseAddress(address);
    if (parsed && !parsed.ok) issues.push({ field, message: parsed.reason });
  }
  if (raw !== undefined)
    for (const field of PART_FIELDS)
      if (parts[field] !== undefined) issues.push({ field, message: 'is not allowed together with raw' });
  return [...issues, ...headerIssues(parts)];
}

type Attachments = readonly (Partial<NonNullable<SimulatedMail['attachments']>[number]> | undefined)[];

/** Returns the issues of the parts that become values of header fields. Attachments that do not match the schema are incomplete. */
function headerIssues({ subject, inReplyTo, attachments = [] }: Partial<SimulatedMail>): Issue[] {
  const files: Attachments = attachments;
  const found: [field: string, message: string | undefined][] = [
    ['subject', lineBreakIssue(subject)],
    ['inReplyTo', lineBreakIssue(inReplyTo)],
  ];
  for (const [index, file] of files.entries()) {
    const { name, contentId } = file ?? {};
    found.push([`attachments[${index}].name`, lineBreakIssue(name)]);
    if (contentId !== undefined) found.push([`attachments[${index}].contentId`, contentIdIssue(contentId)]);
  }
  return found.flatMap(([field, message]) => (message === undefined ? [] : [{ field, message }]));
}

export function simulateInboundRoute(deps: SimulateInboundDeps): RouteDefinition<Caller> {
  const { database, clock } = deps;
  const sandboxClock = createSandboxClock(deps);

  const simulate = async (request: Request): Promise<RouteAnswer> => {
    const { caller, body } = request;
    if (caller.mode !== 'sandbox') return sandboxOnly;
    const issues = issuesOf(body);
    const [to, from] = [parseAddress(body.to), parseAddress(body.from)];
    if (issues.length > 0 || !to.ok) return refuse(invalid(issues));
    const accountId = caller.account.id;
    const domain = domainToAscii(to.value.domain) ?? '';
    const route = await database.execute(matchSandboxRouteOperation, { accountId, domain, local: to.value.local });
    if (!route) return noRoute;
    const nowMs = await sandboxClock.now(accountId);
    const content = await contentOf(database, { caller, body, nowMs });
    if (!content.ok) return content;
    if (content.value.length > route.maxBytes) return refuse(tooLarge(content.value.length, route.maxBytes));
    const source = {
      id: newId('inb', nowMs),
      accountId,
      mode: 'sandbox' as const,
      routeId: route.routeId,
      receivedAtMs: nowMs,
      envelopeFrom: from.ok ? from.value.address : '',
      recipient: to.value.address,
    };
    const authentication = requestedResults(body.authentication);
    const mail = await readInbound(source, { content: content.value, authentication }, deps.links);
    const isInline = content.value.length <= INLINE_BYTES;
    const stored = {
      id: source.id,
      receivedAtMs: nowMs,
      nowMs: clock.now(),
      envelopeFrom: source.envelopeFrom,
      recipient: source.recipient,
      use: { kind: 'route' as const, accountId, mode: source.mode, routeId: route.routeId },
      client: { address: request.remoteAddress, helo: 'sandbox', tls: null },
      sizeBytes: content.value.length,
      content: isInline ? content.value : null,
      blobKey: isInline ? null : await deps.blobs.put(content.value),
    };
    const recorded = await database.execute(simulateInboundOperation, { stored, mail });
    await requestedChanges(database, request, clock.now()).execute(recordChangeOperation, {
      action: 'inbound.simulate',
      resourceId: source.id,
      requested: { inboundRouteId: route.routeId },
    });
    deps.nudge();
    const { outcome, eventId, inReplyTo } = recorded;
    return answer({ inboundId: source.id, inboundRouteId: route.routeId, outcome, eventId, inReplyTo });
  };

  return defineRoute({
    method: 'POST',
    path: '/sandbox/inbound',
    tag: 'sandbox',
    access: { auth: 'key' },
    load: { acceptsMail: true },
    operationId: 'simulateInboundMail',
    summary: 'Simulate an inbound message in the sandbox',
    description:
      'Provide the complete message, or the parts to build it from. Postrider creates its event and webhook deliveries as for a message received over SMTP.',
    body: { schema: simulateRequest, maxBytes: MAX_BYTES, furtherIssues: issuesOf },
    refusals: ['FORBIDDEN', 'NOT_FOUND', 'PAYLOAD_TOO_LARGE'],
    response: { status: 201, schema: simulateResponse },
    handle: simulate,
  });
}

/** Returns the requested results as if Postrider had verified them. */
function requestedResults(given: SimulatedMail['authentication'] = {}): AuthenticationResults {
  const { spf, dkim, dmarc, arc } = NOT_AUTHENTICATED;
  return {
    spf: { ...spf, ...given.spf },
    dkim: (given.dkim ?? dkim).map((one) => ({ domain: null, selector: null, reason: null, ...one })),
    dmarc: { ...dmarc, ...given.dmarc },
    arc: { ...arc, ...given.arc },
  };
}

function tooLarge(sizeBytes: number, maxBytes: number) {
  return failure('PAYLOAD_TOO_LARGE', {
    message: `The message is ${sizeBytes} bytes; the limit of its inbound route is ${maxBytes} bytes (maxBytes).`,
  });
}

interface Composing {
  caller: Caller;
  body: SimulatedMail;
  nowMs: number;
}

/** Returns the message as SMTP would deliver it. */
async function contentOf(database: Database, { caller, body, nowMs }: Composing): Promise<Result<Buffer>> {
  if (body.raw !== undefined) return ok(Buffer.from(body.raw.replace(/\r?\n/g, '\r\n')));
  // A bounce has no envelope sender, and its From field has an address of the mail server.
  const [from, to] = [parseAddress(body.from || 'mailer-daemon@example.com'), parseAddress(body.to)];
  if (!from.ok || !to.ok) return refuse(invalid(issuesOf(body)));
  const repliedToId = await findRepliedToId(database, caller, body.inReplyTo);
  if (repliedToId === undefined)
    return refuse(
      invalid([
        { field: 'inReplyTo', message: 'must be a messageId of this sandbox, or a Message-ID in angle brackets' },
      ]),
    );
  const headers = (body.headers ?? []).map(({ name, value }) => [name, value] as const);
  const composed = compose({
    from: from.value,
    to: [to.value],
    cc: [],
    replyTo: [],
    subject: body.subject ?? '',
    text: body.text ?? (body.html === undefined ? '' : undefined),
    html: body.html,
    headers: repliedToId === '' ? headers : [...headers, ['In-Reply-To', repliedToId], ['References', repliedToId]],
    attachments: (body.attachments ?? []).map(({ name, contentType, content, contentId }) => ({
      name,
      contentType,
      content: Buffer.from(content, 'base64'),
      ...(contentId !== undefined && { contentId }),
    })),
    messageId: `<${randomText(20)}@sandbox.example>`,
    dateMs: nowMs,
  });
  return ok(Buffer.from(composed.content));
}

/** Returns the Message-ID that the message replies to: empty if it is no reply, undefined if `inReplyTo` does not identify a message. */
async function findRepliedToId(
  database: Database,
  { account }: Caller,
  given: string | undefined,
): Promise<string | undefined> {
  if (given === undefined || /^<[^<>\s]+>$/.test(given)) return given ?? '';
  const found = await database.execute(findMessageOperation, {
    accountId: account.id,
    mode: 'sandbox',
    messageId: given,
  });
  return found?.row.header_message_id;
}
