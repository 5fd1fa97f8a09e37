/**
 * Which email clients do not, or only partly, support the HTML and CSS of an email. The table (client-support.json) is from caniemail.com;
 * scripts/client-support.ts writes it.
 */
import { mailClients, mailPlatforms } from '../../texts/inbox.ts';
import { FEATURES, type HtmlUsage } from './client-features.ts';
import table from './client-support.json' with { type: 'json' };

interface TableEntry {
  title: string;
  /** By client: y, n, a (partial), or u (unknown). */
  support: string;
  /** Unsupported parts by note, with the positions of the clients. */
  notes?: Readonly<Record<string, readonly number[]>>;
}

const ENTRIES: Readonly<Record<string, TableEntry>> = table.features;

export const UPDATED = table.updated;

export interface LimitedFeature {
  name: string;
  title: string;
  /** How often the email uses it. */
  count: number;
  /** Names of clients that do not support it. */
  unsupported: readonly string[];
  /** Names of clients that support it partly. */
  partial: readonly string[];
  notes: readonly { text: string; clients: readonly string[] }[];
  /** The page with the tests. */
  url: string;
}

/** Returns the names of clients, one for all apps of a family: `Gmail`, or `Gmail (iOS, Android)` if others of it are missing. */
export function clientNames(positions: readonly number[]): string[] {
  const families = new Map<string, string[]>();
  for (const position of positions) {
    const [family = '', platform = ''] = table.clients[position]!.split('.');
    families.set(family, [...(families.get(family) ?? []), platform]);
  }
  return [...families].map(([family, platforms]) => {
    const all = table.clients.filter((client) => client.startsWith(`${family}.`));
    const name = mailClients[family as keyof typeof mailClients];
    if (platforms.length === all.length) return name;
    return `${name} (${platforms.map((one) => mailPlatforms[one as keyof typeof mailPlatforms]).join(', ')})`;
  });
}

const positionsOf = (support: string, status: string): number[] =>
  [...support].flatMap((one, position) => (one === status ? [position] : []));

/** Returns the features that some client does not fully support: first those that most clients do not support. */
export function limitedFeatures(usage: HtmlUsage): LimitedFeature[] {
  const found = Object.entries(ENTRIES).flatMap(([name, { title, support, notes = {} }]) => {
    const count = FEATURES[name]!(usage);
    const missing = positionsOf(support, 'n');
    if (count === 0) return [];
    const feature: LimitedFeature = {
      name,
      title,
      count,
      unsupported: clientNames(missing),
      partial: clientNames(positionsOf(support, 'a')),
      notes: Object.entries(notes).map(([text, positions]) => ({ text, clients: clientNames(positions) })),
      url: `https://www.caniemail.com/features/${name}/`,
    };
    return [{ feature, missing: missing.length }];
  });
  return found.sort((one, other) => other.missing - one.missing).map(({ feature }) => feature);
}
