/**
 * The mailbox provider of a recipient domain, by the list in mailbox-domains.json: domains at which a provider gives mailboxes to anyone.
 * Names are those in the built-in list of MX hosts (src/delivery/destinations/providers.json). Domains of customers that a provider hosts
 * are not included, since only their MX hosts would show it.
 */
import domains from './mailbox-domains.json' with { type: 'json' };

const PROVIDER_OF: ReadonlyMap<string, string> = new Map(
  Object.entries(domains).flatMap(([provider, list]) => list.map((domain) => [domain, provider] as const)),
);

/** All domains of the list, lower case. */
export const MAILBOX_DOMAINS: readonly string[] = [...PROVIDER_OF.keys()];

/** Returns the provider of a domain in lower case; undefined if the domain is not in the list. */
export const mailboxProviderOf = (domain: string): string | undefined => PROVIDER_OF.get(domain);
