/** How DNS providers' forms expect a record: which part of the name, the symbol for the zone itself, and whether values are quoted. */
import { providers } from '../../texts/domains.ts';
import { type DnsRecord, nameWithin, quotedStrings } from './zone.ts';

interface Provider {
  name: string;
  steps: readonly string[];
  /** Entered for the zone itself; absent if the form expects full names. */
  apex?: '@' | '';
  /** Long values are entered as quoted strings of 255 characters each. */
  isQuoted?: boolean;
}

export const PROVIDERS = {
  other: { ...providers.other },
  cloudflare: { ...providers.cloudflare, apex: '@' },
  route53: { ...providers.route53, apex: '', isQuoted: true },
  squarespace: { ...providers.squarespace, apex: '@' },
  godaddy: { ...providers.godaddy, apex: '@' },
  namecheap: { ...providers.namecheap, apex: '@' },
  hetzner: { ...providers.hetzner, apex: '@', isQuoted: true },
  ovh: { ...providers.ovh, apex: '' },
  ionos: { ...providers.ionos, apex: '@' },
  gandi: { ...providers.gandi, apex: '@', isQuoted: true },
  digitalocean: { ...providers.digitalocean, apex: '@' },
} satisfies Record<string, Provider>;

export type ProviderId = keyof typeof PROVIDERS;

export const providerOf = (id: ProviderId): Provider => PROVIDERS[id];

interface Entry {
  /** '' if the field of the form stays empty. */
  name: string;
  value: string;
}

/** Returns what to enter at a provider for a record of this zone. */
export function entryOf(id: ProviderId, record: DnsRecord, zone: string): Entry {
  const { apex, isQuoted } = providerOf(id);
  return {
    name: apex === undefined ? record.name : nameWithin(record.name, zone) || apex,
    value: isQuoted && record.type === 'TXT' ? quotedStrings(record.value) : record.value,
  };
}
