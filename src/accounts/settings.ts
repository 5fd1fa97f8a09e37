/**
 * PATCH /account: which settings can change, and how. The name, the time zone, and the logo (logo.ts) appear in notices. Variables are
 * merged by name and removed by null; "" removes the default sender. Every issue is reported. Fields that only operators change (plan,
 * status, limits) are unknown fields here.
 */
import { failure, type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { Type } from '../http/schema-type.ts';
import { mapOf, named, oneOf } from '../http/validate.ts';
import { parseAddress } from '../mail/address.ts';
import type { Database } from '../storage/database.ts';
import { ACCOUNT_NAME, type Account } from './account.ts';
import { patchSettingsOperation } from './store.ts';
import { TIME_ZONE_RULE, timeZoneName } from './time-zone.ts';

const MAXIMUM_VARIABLES = 200;
const MAXIMUM_VALUE_BYTES = 100_000;
const MAXIMUM_VARIABLE_BYTES = 500_000;
const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;

export const settingsPatchSchema = named('AccountSettingsRequest', {
  name: Type.Optional(Type.String(ACCOUNT_NAME)),
  timeZone: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 100,
      description: 'Time zone of the times in notices: a name of the IANA time zone database, such as Europe/Berlin.',
    }),
  ),
  variables: Type.Optional(
    mapOf(Type.Unsafe<string | null>({ type: ['string', 'null'], maxLength: MAXIMUM_VALUE_BYTES }), {
      maxProperties: MAXIMUM_VARIABLES,
      description:
        'Merged by name; null removes a variable. unsubscribe_email_html is always the link of the recipient, whatever is set here.',
    }),
  ),
  missingVariables: Type.Optional(oneOf(['error', 'empty', 'keep'])),
  retainContent: Type.Optional(oneOf(['none', '7d', '30d'])),
  defaultFrom: Type.Optional(
    Type.String({
      maxLength: 1_000,
      description: 'An address; "" removes it.',
    }),
  ),
});

interface SettingsRequest {
  name?: string;
  timeZone?: string;
  variables?: Record<string, string | null>;
  missingVariables?: 'error' | 'empty' | 'keep';
  retainContent?: 'none' | '7d' | '30d';
  defaultFrom?: string;
}

function variableIssues(variables: Record<string, string | null>): Issue[] {
  const issues: Issue[] = [];
  for (const [name, value] of Object.entries(variables)) {
    const field = `variables.${name.slice(0, 100)}`;
    if (!NAME.test(name) || name === '__proto__') {
      issues.push({
        field,
        message: 'must have a name of at most 64 letters, digits, and underscores that does not start with a digit',
      });
    } else if (value?.includes('\0')) {
      issues.push({ field, message: 'must not contain the NUL character' });
    } else if (value !== null && Buffer.byteLength(value) > MAXIMUM_VALUE_BYTES) {
      issues.push({ field, message: `must be at most ${MAXIMUM_VALUE_BYTES} bytes` });
    }
  }
  return issues;
}

/** Returns issues of settings that match their schema. */
export function settingsIssues({ variables = {}, defaultFrom, timeZone }: SettingsRequest): Issue[] {
  const issues = variableIssues(variables);
  if (typeof timeZone === 'string' && timeZoneName(timeZone) === undefined)
    issues.push({ field: 'timeZone', message: TIME_ZONE_RULE });
  if (typeof defaultFrom === 'string' && defaultFrom !== '') {
    const address = parseAddress(defaultFrom);
    if (!address.ok) issues.push({ field: 'defaultFrom', message: address.reason });
  }
  return issues;
}

/** Merges a validated request into the settings; returns the account afterwards. */
export async function patchSettings(
  database: Database,
  accountId: string,
  request: SettingsRequest,
): Promise<Result<Account>> {
  const { name, timeZone, variables = {}, defaultFrom, ...settings } = request;
  const issues = settingsIssues(request);
  if (issues.length > 0) return refuse(invalid(issues));
  const outcome = await database.execute(patchSettingsOperation, {
    id: accountId,
    ...(name !== undefined && { name: name.trim() }),
    ...(timeZone !== undefined && { timeZone: timeZoneName(timeZone)! }),
    variables,
    settings: { ...settings, ...(defaultFrom !== undefined && { defaultFrom: defaultFrom || null }) },
    maximumVariables: MAXIMUM_VARIABLES,
    maximumVariableBytes: MAXIMUM_VARIABLE_BYTES,
  });
  if ('account' in outcome) return ok(outcome.account);
  if (outcome.refused === 'unknown') return refuse(failure('NOT_FOUND'));
  const message =
    outcome.refused === 'too-many'
      ? `must have at most ${MAXIMUM_VARIABLES} entries in total; set some to null to remove them`
      : `must be at most ${MAXIMUM_VARIABLE_BYTES} bytes in total; set some to null to remove them`;
  return refuse(invalid([{ field: 'variables', message }]));
}
