/** A common form of API keys and SMTP credentials: both have a mode, allowed senders, and allowed networks, are shown once, and can be rotated and revoked. */
import type { Answer, Caller, Mode } from '../../api.ts';
import { useScope } from '../../scope.ts';
import { keys } from '../../texts/keys.ts';

export type ApiKey = Answer<'listApiKeys'>[number];
export type SmtpCredential = Answer<'listSmtpCredentials'>[number];
export type Kind = 'key' | 'smtp';

/** The properties of a new credential. */
export interface Wish {
  mode: Mode;
  allowedSenders: string[];
  allowedNetworks: string[];
  /** The time from its creation until it expires, in ms; null if it never does. A rotation keeps it. */
  lifetimeMs: number | null;
  /** For API keys. */
  scope: ApiKey['scope'];
  name: string;
  /** For SMTP credentials. */
  deliveryReports: SmtpCredential['deliveryReports'];
}

/** An existing credential, which can be rotated or revoked. */
export interface Credential extends Wish {
  kind: Kind;
  id: string;
  /** The name shown to the user. */
  label: string;
}

export type Made =
  | { kind: 'key'; secret: Answer<'createApiKey'> }
  | { kind: 'smtp'; secret: Answer<'createSmtpCredential'> };

const lifetimeOf = ({ createdAt, expiresAt }: ApiKey | SmtpCredential): number | null =>
  expiresAt === null ? null : Date.parse(expiresAt) - Date.parse(createdAt);

export const credentialOfKey = (key: ApiKey): Credential => ({
  kind: 'key',
  id: key.keyId,
  label: key.name ?? key.keyId,
  mode: key.mode,
  scope: key.scope,
  name: key.name ?? '',
  allowedSenders: key.allowedSenders,
  allowedNetworks: key.allowedNetworks,
  lifetimeMs: lifetimeOf(key),
  deliveryReports: 'off',
});

export const credentialOfSmtp = (one: SmtpCredential): Credential => ({
  kind: 'smtp',
  id: one.smtpCredentialId,
  label: one.username,
  mode: one.mode,
  scope: 'send',
  name: '',
  allowedSenders: one.allowedSenders,
  allowedNetworks: one.allowedNetworks,
  lifetimeMs: lifetimeOf(one),
  deliveryReports: one.deliveryReports,
});

export async function make(caller: Caller, kind: Kind, wish: Wish): Promise<Made> {
  const { mode, allowedSenders, allowedNetworks, scope, name, deliveryReports, lifetimeMs } = wish;
  const expiry = lifetimeMs === null ? {} : { expiresAt: new Date(Date.now() + lifetimeMs).toISOString() };
  const limits = { mode, allowedSenders, allowedNetworks, ...expiry };
  if (kind === 'smtp') {
    const body = { ...limits, deliveryReports };
    return { kind, secret: await caller.call('createSmtpCredential', { body }) };
  }
  const named = name.trim() === '' ? {} : { name: name.trim() };
  return { kind, secret: await caller.call('createApiKey', { body: { ...limits, scope, ...named } }) };
}

export const senderText = (senders: readonly string[]): string =>
  senders.length === 0 ? keys.anySender : senders.join(', ');

/** Whether the user may change credentials of a mode: owners always, others only in the sandbox. */
export function useMayChange(): (mode: Mode) => boolean {
  const { mayOwn, mode } = useScope();
  return (of) => mayOwn && (mode === 'live' || of === 'sandbox');
}
