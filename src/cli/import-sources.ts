/**
 * Defines the export formats of other services as data: for each service, the kinds of rows it exports, recognized by their fields. A kind
 * defines the meaning of a row: an address to suppress, a domain, a template, or a row that is not imported and the reason why not. Field
 * names are compared without case and punctuation, because CSV exports contain `Email Address` instead of `EmailAddress`.
 */
import { mailboxProviderOf } from '../mail/mailbox-provider.ts';
import type { SuppressionReason } from '../suppressions/suppressions.ts';
import {
  type ExportedTemplate,
  mailgunTemplate,
  postmarkTemplate,
  resendTemplate,
  sendgridTemplate,
  sesTemplate,
} from './import-templates.ts';

/** A row of a file: normalized field names and their values. */
export type Row = Readonly<Record<string, unknown>>;

export type ImportedRow =
  | { suppress: string; reason: SuppressionReason; expiresAt?: string | undefined }
  | { domain: string }
  | { template: ExportedTemplate }
  /** The row is not imported, for this reason. Rows with the same reason are counted together. */
  | { skip: string }
  /** A field is invalid; `problem` contains its value and the accepted form. */
  | { field: string; problem: string };

export interface Choices {
  /** The list that the rows are from, if their fields do not identify it. */
  list?: string | undefined;
  /** Whether addresses that unsubscribed from only one group or tag are suppressed too. */
  groups?: boolean | undefined;
}

export interface RowKind {
  name: string;
  /** Fields that a row of this kind has. If a field has several names, separated by `|`, one of them is sufficient. */
  fields: readonly string[];
  /** Fields that a row of this kind never has. */
  without?: readonly string[];
  /** Names of the lists of the service that have these fields; `--list` chooses one of them. */
  lists?: readonly string[];
  read(row: Row, choices: Choices): ImportedRow;
}

export interface Source {
  title: string;
  kinds: readonly RowKind[];
}

const EMAIL = 'emailaddress|email|address|recipient';

/** Returns the first field that has a value, as text. */
export function textOf(row: Row, names: string): string {
  for (const name of names.split('|')) {
    const value = row[name];
    if (value !== undefined && value !== null && value !== '') return String(value).trim();
  }
  return '';
}

const hasField = (row: Row, names: string): boolean => names.split('|').some((name) => name in row);

/** Returns the first kind whose fields a row has. */
export function kindOf(source: Source, row: Row): RowKind | undefined {
  return source.kinds.find(
    ({ fields, without = [] }) =>
      fields.every((names) => hasField(row, names)) && !without.some((names) => hasField(row, names)),
  );
}

type Reasons = Readonly<Record<string, SuppressionReason>>;

/** Returns a reader for rows with a field for the reason why the address is suppressed. */
function byReason(field: string, reasons: Reasons) {
  return (row: Row): ImportedRow => {
    const given = textOf(row, field);
    const reason = reasons[given.toLowerCase()];
    const accepted = Object.keys(reasons).join(', ');
    if (reason === undefined)
      return { field: field.split('|')[0]!, problem: `is "${given}"; it must be one of ${accepted}` };
    return { suppress: textOf(row, EMAIL), reason };
  };
}

const always =
  (reason: SuppressionReason) =>
  (row: Row): ImportedRow => ({ suppress: textOf(row, EMAIL), reason });

const isTrue = (text: string): boolean => /^(?:true|1|yes)$/i.test(text);

function domainUnless(field: string, accepted: RegExp, skipReason: string) {
  return (row: Row): ImportedRow =>
    accepted.test(textOf(row, field)) ? { domain: domainOf(row) } : { skip: skipReason };
}

function domainOf(row: Row): string {
  return textOf(row, 'domain|identityname|name').split('@').at(-1) ?? '';
}

function sendgridGroup(row: Row, { groups = false }: Choices): ImportedRow {
  if (!groups) return { skip: 'unsubscribed from one group only (add --groups to suppress them completely)' };
  return { suppress: textOf(row, EMAIL), reason: 'unsubscribe' };
}

function mailgunUnsubscribe(row: Row, { groups = false }: Choices): ImportedRow {
  const { tags } = row;
  const names = Array.isArray(tags) ? tags.map(String) : textOf(row, 'tags|tag').split(/[\s,;[\]"']+/);
  const isEverything = names.filter((name) => name !== '').length === 0 || names.includes('*');
  if (isEverything || groups) return { suppress: textOf(row, EMAIL), reason: 'unsubscribe' };
  return { skip: 'unsubscribed from one tag only (add --groups to suppress them completely)' };
}

/** Reads a suppression of Postal, which expires at a time in Unix seconds. */
function postalSuppression(row: Row): ImportedRow {
  const type = textOf(row, 'type');
  if (type !== '' && type !== 'recipient') return { skip: `entries of type ${type}` };
  const until = textOf(row, 'keepuntil');
  const seconds = Number(until);
  const expiresAt = until === '' || until === 'NULL' ? undefined : seconds * 1000;
  if (expiresAt !== undefined && !(Math.abs(expiresAt) < 8.64e15)) {
    return { field: 'keep_until', problem: `is "${until}"; it must be Unix time in seconds` };
  }
  const reason = /complain|spam/i.test(textOf(row, 'reason')) ? 'complaint' : 'bounce';
  return {
    suppress: textOf(row, EMAIL),
    reason,
    expiresAt: expiresAt === undefined ? undefined : new Date(expiresAt).toISOString(),
  };
}

/** Types of bounces of Postmark that are not failed deliveries. */
const POSTMARK_REASONS: Reasons = {
  spamcomplaint: 'complaint',
  unsubscribe: 'unsubscribe',
  manuallydeactivated: 'manual',
};

/** Reads a sender signature of Postmark, which can be a single address at a public mailbox provider. */
function postmarkSignature(row: Row): ImportedRow {
  if (!isTrue(textOf(row, 'confirmed'))) return { skip: 'sender signatures that are not confirmed' };
  const domain = domainOf(row);
  if (mailboxProviderOf(domain.toLowerCase()) === undefined) return { domain };
  return { skip: 'sender signatures at a public mailbox provider, whose domain you cannot verify' };
}

const SENDGRID_LISTS = ['bounces', 'blocks'];

export const SOURCES: Readonly<Record<string, Source>> = {
  resend: {
    title: 'Resend',
    kinds: [
      {
        name: 'suppressions',
        fields: ['email', 'origin'],
        read: byReason('origin', { bounce: 'bounce', complaint: 'complaint', manual: 'manual' }),
      },
      {
        name: 'contacts',
        fields: ['email', 'unsubscribed'],
        read: (row) =>
          isTrue(textOf(row, 'unsubscribed'))
            ? { suppress: textOf(row, EMAIL), reason: 'unsubscribe' }
            : { skip: 'contacts that are subscribed' },
      },
      { name: 'templates', fields: ['name', 'publishedat|html'], read: resendTemplate },
      { name: 'domains', fields: ['name', 'region', 'status'], read: (row) => ({ domain: domainOf(row) }) },
    ],
  },
  postmark: {
    title: 'Postmark',
    kinds: [
      {
        name: 'suppressions',
        fields: [EMAIL, 'suppressionreason|reason'],
        read: (row) => {
          const isManual = textOf(row, 'suppressionreason|reason') === 'ManualSuppression';
          if (isManual && textOf(row, 'origin') === 'Recipient')
            return { suppress: textOf(row, EMAIL), reason: 'unsubscribe' };
          const reasons: Reasons = { hardbounce: 'bounce', spamcomplaint: 'complaint', manualsuppression: 'manual' };
          return byReason('suppressionreason|reason', reasons)(row);
        },
      },
      {
        name: 'bounces',
        fields: ['email', 'type', 'inactive'],
        read: (row) => {
          if (!isTrue(textOf(row, 'inactive'))) return { skip: 'bounces that did not deactivate the address' };
          const reason = POSTMARK_REASONS[textOf(row, 'type').toLowerCase()] ?? 'bounce';
          return { suppress: textOf(row, EMAIL), reason };
        },
      },
      { name: 'templates', fields: ['templateid', 'templatetype|htmlbody|textbody'], read: postmarkTemplate },
      { name: 'domains', fields: ['name', 'spfverified|dkimverified'], read: (row) => ({ domain: domainOf(row) }) },
      { name: 'sender signatures', fields: ['domain', 'confirmed'], read: postmarkSignature },
    ],
  },
  sendgrid: {
    title: 'SendGrid',
    kinds: [
      { name: 'templates', fields: ['generation', 'versions'], read: sendgridTemplate },
      { name: 'group unsubscribes', fields: ['email', 'groupid|groupname'], read: sendgridGroup },
      {
        name: 'bounces or blocks',
        fields: ['email', 'reason', 'status', 'created'],
        lists: SENDGRID_LISTS,
        read: (row, { list }) =>
          list === 'blocks'
            ? { skip: 'blocks, which do not mean that the address is invalid' }
            : { suppress: textOf(row, EMAIL), reason: 'bounce' },
      },
      { name: 'invalid emails', fields: ['email', 'reason', 'created'], read: always('bounce') },
      { name: 'spam reports', fields: ['email', 'ip', 'created'], read: always('complaint') },
      { name: 'global unsubscribes', fields: ['email', 'created'], read: always('unsubscribe') },
      {
        name: 'domains',
        fields: ['domain', 'valid'],
        read: (row) => ({ domain: domainOf(row) }),
      },
    ],
  },
  mailgun: {
    title: 'Mailgun',
    kinds: [
      { name: 'bounces', fields: ['address', 'error|code'], read: always('bounce') },
      { name: 'unsubscribes', fields: ['address', 'tags|tag'], read: mailgunUnsubscribe },
      { name: 'complaints', fields: ['address', 'createdat'], read: always('complaint') },
      {
        name: 'allowlist',
        fields: ['type', 'value'],
        read: () => ({ skip: 'allowlist entries, which Postrider does not have' }),
      },
      { name: 'templates', fields: ['name', 'version|createdby'], without: ['state'], read: mailgunTemplate },
      {
        name: 'domains',
        fields: ['name', 'state'],
        read: domainUnless('state', /^(?:active|unverified)$/i, 'disabled domains'),
      },
    ],
  },
  ses: {
    title: 'Amazon SES',
    kinds: [
      {
        name: 'suppressions',
        fields: ['emailaddress', 'reason'],
        read: byReason('reason', { bounce: 'bounce', complaint: 'complaint' }),
      },
      {
        name: 'templates',
        fields: ['templatename|name', 'templatecontent|htmlpart|textpart|createdtimestamp'],
        read: sesTemplate,
      },
      {
        name: 'identities',
        fields: ['identityname', 'identitytype'],
        read: domainUnless('identitytype', /^(?:MANAGED_)?DOMAIN$/, 'identities that are not domains'),
      },
    ],
  },
  postal: {
    title: 'Postal',
    kinds: [
      { name: 'suppressions', fields: ['address', 'keepuntil|reason'], read: postalSuppression },
      {
        name: 'domains',
        fields: ['name', 'verificationtoken|verifiedat|dkimidentifierstring'],
        read: (row) => ({ domain: domainOf(row) }),
      },
    ],
  },
};

/** Returns the normalized form of a field name: `Email Address` and `email_address` become `emailaddress`. */
export function fieldName(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '');
}
