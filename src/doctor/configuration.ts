/** Checks the settings, the Node version, the base URL, and how long messages are kept for late bounces. */
import type { Config } from '../config.ts';
import { isHttps } from '../engagement/engagement.ts';
import { LIFE_DAYS } from '../mail/token-address.ts';
import { type Check, fail, ok, warn } from './check.ts';

const OLDEST_NODE = 26;

export function checkConfiguration({ unknownSettings }: Config): Check[] {
  const unknown = unknownSettings.map((name) =>
    warn(
      'configuration',
      `${name} is not a setting of this version`,
      'Check the spelling; docs/reference/settings.md lists all settings.',
    ),
  );
  const major = Number(process.versions.node.split('.')[0]);
  const runtime =
    major >= OLDEST_NODE
      ? ok('runtime', `Node ${process.version}`)
      : fail('runtime', `Node ${process.version} is not supported`, `Install Node ${OLDEST_NODE} or newer.`);
  return [ok('configuration', 'all settings are valid'), ...unknown, runtime];
}

/** Checks the start of the links in email. */
export function checkBaseUrl({ roles, baseUrl }: Config): Check[] {
  const name = 'public address';
  if (!roles.includes('api')) return [];
  if (baseUrl !== undefined && isHttps(baseUrl)) return [ok(name, baseUrl)];
  const what = baseUrl === undefined ? 'POSTRIDER_BASE_URL is not set' : `${baseUrl} is not an https URL`;
  return [
    warn(
      name,
      `${what}: one-click unsubscribe is disabled, because email clients offer it over https only`,
      'Set POSTRIDER_BASE_URL to the public https URL of this service.',
    ),
  ];
}

/** Checks whether messages are stored long enough: a bounce has no effect after its message was deleted. */
export function checkRetention({ bounceDomain, eventDays }: Pick<Config, 'bounceDomain' | 'eventDays'>): Check[] {
  if (bounceDomain === undefined || eventDays >= LIFE_DAYS.unsubscribe) return [];
  const what = eventDays < LIFE_DAYS.bounce ? 'bounces, complaints and unsubscribe emails' : 'unsubscribe emails';
  return [
    warn(
      'retention',
      `messages are stored for ${eventDays} days: ${what} that arrive later have no effect`,
      `Set POSTRIDER_EVENT_DAYS to ${LIFE_DAYS.unsubscribe} or more.`,
    ),
  ];
}
