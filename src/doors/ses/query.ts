/**
 * Version 1 of the API (Query protocol): the action and its parameters are a form in the body of `POST /`, and responses are XML. The actions
 * are converted into those of version 2.
 */
import type { Caller } from '../../accounts/accounts.ts';
import { ok, type Result, refuse } from '../../base/failure.ts';
import { defineRoute, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../../http/route.ts';
import { sendQuota } from './account.ts';
import { type Destination, metadataOf, recipientFields, templateFields, templateVariables } from './content.ts';
import { contextOf, defined, EMAIL_BODY, invalidField, type SesContext, type SesDoorDeps } from './endpoint.ts';
import { PREFIX, unknownAction } from './errors.ts';
import { identityNames } from './identities.ts';
import { sendRaw } from './raw.ts';
import { type BulkBody, sendBulk, sendFields } from './send.ts';
import { queryResponse, type XmlValue } from './xml.ts';

/** The parameters of an action. */
class Parameters {
  readonly #values: ReadonlyMap<string, string>;

  constructor(values: ReadonlyMap<string, string>) {
    this.#values = values;
  }

  text(name: string): string | undefined {
    return this.#values.get(name);
  }

  /** Returns the parameters of a structure: those whose names start with `name.`. */
  inside(name: string): Parameters {
    const start = `${name}.`;
    const inner = [...this.#values].filter(([key]) => key.startsWith(start));
    return new Parameters(new Map(inner.map(([key, value]) => [key.slice(start.length), value])));
  }

  /** Returns the entries of a list (`name.member.1`, …), in order. */
  entries(name: string): Parameters[] {
    const members = this.inside(`${name}.member`);
    const indexes = [...members.#values.keys()].map((key) => Number(/^\d{1,6}(?=\.|$)/.exec(key)?.[0] ?? Number.NaN));
    return [...new Set(indexes)]
      .filter((index) => !Number.isNaN(index))
      .sort((a, b) => a - b)
      .map((index) => {
        const inner = members.inside(String(index));
        const own = members.text(String(index));
        return own === undefined ? inner : new Parameters(new Map([['', own]]));
      });
  }

  /** Returns a list of texts; undefined if it is absent. */
  texts(name: string): string[] | undefined {
    const entries = this.entries(name);
    return entries.length === 0 ? undefined : entries.map((one) => one.text('') ?? '');
  }

  get isEmpty(): boolean {
    return this.#values.size === 0;
  }
}

/** Parses a form; refuses repeated names, and NUL, which databases do not store and JSON bodies cannot have either. */
function parseForm(body: Buffer): Result<Parameters> {
  const values = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(body.toString('utf8'))) {
    if (values.has(name)) return invalidField(name.slice(0, 100), 'is given more than once');
    if (value.includes('\0')) return invalidField(name.slice(0, 100), 'contains the NUL character');
    values.set(name, value);
  }
  return ok(new Parameters(values));
}

type Answered = Result<XmlValue>;
type Action = (deps: SesDoorDeps, context: SesContext, given: Parameters) => Promise<Answered>;

function destinationOf(given: Parameters): Destination {
  return defined({
    ToAddresses: given.texts('ToAddresses'),
    CcAddresses: given.texts('CcAddresses'),
    BccAddresses: given.texts('BccAddresses'),
  });
}

function tagsOf(given: Parameters, name: string): { Name: string; Value: string }[] {
  return given.entries(name).map((tag) => ({ Name: tag.text('Name') ?? '', Value: tag.text('Value') ?? '' }));
}

/** Returns the fields that the actions for composed email have in common. */
function sharedFields(given: Parameters): Result<Record<string, unknown>> {
  const metadata = metadataOf(tagsOf(given, 'Tags'), 'Tags');
  if (!metadata.ok) return metadata;
  return ok({
    from: given.text('Source'),
    ...recipientFields(destinationOf(given.inside('Destination'))),
    replyTo: given.texts('ReplyToAddresses'),
    metadata: metadata.value,
  });
}

const sendEmail: Action = async (_deps, context, given) => {
  const shared = sharedFields(given);
  if (!shared.ok) return shared;
  const message = given.inside('Message');
  return sent(
    await sendFields(context, {
      ...shared.value,
      subject: message.text('Subject.Data'),
      html: message.text('Body.Html.Data'),
      text: message.text('Body.Text.Data'),
      render: false,
    }),
  );
};

const sendTemplatedEmail: Action = async (_deps, context, given) => {
  const shared = sharedFields(given);
  if (!shared.ok) return shared;
  const variables = templateVariables(given.text('TemplateData'), 'TemplateData');
  if (!variables.ok) return variables;
  const TemplateName = given.text('Template');
  if (TemplateName === undefined) return invalidField('Template', 'is required: the name of a stored template');
  const fields = templateFields({}, { templateId: TemplateName }, variables.value);
  return fields.ok ? sent(await sendFields(context, { ...shared.value, ...fields.value })) : fields;
};

const sendRawEmail: Action = async (deps, context, given) => {
  const metadata = metadataOf(tagsOf(given, 'Tags'), 'Tags');
  if (!metadata.ok) return metadata;
  const data = given.text('RawMessage.Data');
  if (data === undefined) return invalidField('RawMessage.Data', 'is required: a MIME message in Base64');
  return sent(
    await sendRaw(deps, context, {
      data,
      field: 'RawMessage.Data',
      from: given.text('Source'),
      recipients: given.texts('Destinations') ?? [],
      metadata: metadata.value,
    }),
  );
};

const sendBulkTemplatedEmail: Action = async (_deps, context, given) => {
  const entries = given.entries('Destinations');
  if (entries.length === 0) return invalidField('Destinations', 'needs at least one entry');
  if (entries.length > 50) return invalidField('Destinations', `has ${entries.length} entries; at most 50 are allowed`);
  const body = defined({
    FromEmailAddress: given.text('Source'),
    ReplyToAddresses: given.texts('ReplyToAddresses'),
    DefaultEmailTags: tagsOf(given, 'DefaultTags'),
    DefaultContent: {
      Template: defined({ TemplateName: given.text('Template'), TemplateData: given.text('DefaultTemplateData') }),
    },
    BulkEmailEntries: entries.map((entry) => ({
      Destination: destinationOf(entry.inside('Destination')),
      ReplacementTags: tagsOf(entry, 'ReplacementTags'),
      ReplacementEmailContent: {
        ReplacementTemplate: defined({ ReplacementTemplateData: entry.text('ReplacementTemplateData') }),
      },
    })),
  }) as BulkBody;
  const results = await sendBulk(context, body);
  if (!results.ok) return results;
  // Version 1 writes statuses as words, such as MessageRejected.
  const words = (status: string): string =>
    status
      .toLowerCase()
      .split('_')
      .map((word) => `${word[0]!.toUpperCase()}${word.slice(1)}`)
      .join('');
  return ok({ Status: results.value.map((one) => ({ ...one, Status: words(one.Status) })) });
};

const getSendQuota: Action = async (deps, context) => {
  const quota = await sendQuota(deps, context);
  return quota.ok ? ok({ ...quota.value }) : quota;
};

const getAccountSendingEnabled: Action = async (_deps, context) => {
  const account = await context.call('GET', '/account');
  return account.ok ? ok({ Enabled: account.body.status === 'active' }) : account;
};

const listIdentities: Action = async (_deps, context) => {
  const names = await identityNames(context);
  return names.ok ? ok({ Identities: names.value.map(({ domain }) => domain) }) : names;
};

const ACTIONS: Readonly<Record<string, Action>> = {
  SendEmail: sendEmail,
  SendRawEmail: sendRawEmail,
  SendTemplatedEmail: sendTemplatedEmail,
  SendBulkTemplatedEmail: sendBulkTemplatedEmail,
  GetSendQuota: getSendQuota,
  GetAccountSendingEnabled: getAccountSendingEnabled,
  ListIdentities: listIdentities,
};

function sent(result: Result<Record<string, unknown>>): Answered {
  return result.ok ? ok({ MessageId: String(result.value.MessageId) }) : result;
}

async function handle(deps: SesDoorDeps, request: RouteRequest<Caller>): Promise<RouteAnswer> {
  const form = parseForm(request.rawBody);
  if (!form.ok) return form;
  const name = form.value.text('Action') ?? '';
  const action = Object.hasOwn(ACTIONS, name) ? ACTIONS[name] : undefined;
  if (action === undefined) return refuse(unknownAction(name));
  const result = await action(deps, contextOf(deps, request), form.value);
  if (!result.ok) return result;
  return {
    ok: true,
    contentType: 'text/xml',
    content: queryResponse(name, result.value, request.requestId),
  };
}

/** Returns the routes of version 1: the path of the interface, with and without a slash at the end. */
export function queryRoutes(deps: SesDoorDeps): RouteDefinition<Caller>[] {
  return [PREFIX, `${PREFIX}/`].map((path) =>
    defineRoute<Caller>({
      method: 'POST',
      path,
      tag: 'ses',
      access: { auth: 'key', scope: 'send' },
      hidden: true,
      ownQuery: true,
      summary: 'Call an action of version 1 (Query protocol)',
      idempotencyKey: true,
      body: { type: 'raw', ...EMAIL_BODY },
      load: { acceptsMail: true },
      response: { status: 200, contentType: 'text/xml' },
      handle: (request) => handle(deps, request as RouteRequest<Caller>),
    }),
  );
}
