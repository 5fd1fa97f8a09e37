/**
 * The account (one workspace) and who calls on its behalf. Shapes only.
 */
import type { Mode } from '../base/mode.ts';
import type { Caps } from '../caps/caps.ts';

export type Plan = 'free' | 'paid' | 'enterprise';
export type AccountStatus = 'active' | 'suspended';
export type Scope = 'send' | 'full';
export type MissingVariables = 'error' | 'empty' | 'keep';

export const STANDARD_EMAIL_BYTES = 2_000_000;
export const MAXIMUM_EMAIL_BYTES = 40_000_000;

/** What PATCH /account changes; kept as JSON. */
export interface AccountSettings {
  /** Values of the account's own variables, such as company_address_html. */
  variables: Record<string, string>;
  missingVariables: MissingVariables;
  retainContent: 'none' | '7d' | '30d';
  defaultFrom: string | null;
}

export interface Account {
  id: string;
  name: string;
  plan: Plan;
  status: AccountStatus;
  approvedEmailBytes: number;
  settings: AccountSettings;
  /** Caps that the operator has set for this account; the others are the standard ones. */
  limits: Partial<Caps>;
  /** Unix ms. */
  createdAt: number;
}

/** The authenticated caller: the account, and what its key allows. */
export interface Caller {
  account: Account;
  mode: Mode;
  scope: Scope;
  keyId: string;
  /** Addresses and domains that its key or credential is bound to; empty: to none. */
  allowedSenders: readonly string[];
}

export const NO_SENDERS: readonly string[] = [];
