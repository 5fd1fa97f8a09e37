/**
 * Accepted recipients of inbound mail: addresses of sent copies (bounces, unsubscribe emails), abuse and postmaster of the bounce domains,
 * postmaster without a domain or at this host (RFC 5321 §4.5.1), and inbound routes. All others are rejected; nothing is relayed.
 *
 * Every rejection does the same work: a token is verified (or an equivalent operation is done), the domain is looked up, and so are the
 * routes. Response times therefore reveal nothing. A valid token at the bounce domain needs no lookup.
 */
import type { Clock } from '../base/clock.ts';
import type { ReturnPathState } from '../domains/domains.ts';
import { domainToAscii } from '../mail/address.ts';
import type { TokenAddresses } from '../mail/token-address.ts';
import type { FindRoute, InboundUse, Use } from './inbound-mail.ts';

/** Maximum size of mail to the bounce domain: Exchange returns the complete message with attachments. Little of it is stored. */
const REPORT_BYTES = 50_000_000;

export interface Recipients {
  /** Returns undefined if the recipient is rejected; a promise if the database is queried. `domain` is empty if none was given. */
  find(address: { local: string; domain: string }): InboundUse | Promise<InboundUse | undefined>;
}

export interface RecipientsOptions {
  tokens: TokenAddresses;
  clock: Clock;
  /** Domain of the return path; undefined if not configured. */
  bounceDomain: string | undefined;
  /** Host name of this service. */
  hostname: string;
  /** Returns whether a domain is the return path of a sender domain. */
  returnPathState(domain: string): Promise<ReturnPathState>;
  findRoute: FindRoute;
}

export function createRecipients(options: RecipientsOptions): Recipients {
  const { tokens, clock, bounceDomain, hostname, returnPathState, findRoute } = options;
  const bounceHost = bounceDomain === undefined ? undefined : domainToAscii(bounceDomain);

  const ofToken = (local: string): Use | undefined => {
    const claim = tokens.open(local, clock.now());
    if (!claim) return undefined;
    const { use, ...copy } = claim;
    return { kind: use === 'bounce' ? 'return-path' : 'unsubscribe', copy };
  };
  const ofName = (local: string, domain: string, isBounceDomain: boolean): Use | undefined => {
    const name = local.toLowerCase();
    if (name === 'postmaster' && (isBounceDomain || domain === '' || domain === hostname.toLowerCase()))
      return { kind: 'postmaster' };
    return name === 'abuse' && isBounceDomain ? { kind: 'abuse' } : undefined;
  };

  const ask = async (local: string, domain: string, token: Use | undefined): Promise<InboundUse | undefined> => {
    const [state, route] = await Promise.all([returnPathState(domain), findRoute({ local, domain })]);
    // A token proves that Postrider sent mail with this return path. A name is the operator's only if the domain belongs to a customer.
    const use =
      ofName(local, domain, state === 'confirmed' || domain === bounceHost) ?? (state === 'none' ? undefined : token);
    return use ? { use, maxBytes: REPORT_BYTES } : route;
  };

  return {
    find: ({ local, domain: given }) => {
      const domain = domainToAscii(given) ?? '';
      const token = ofToken(local);
      return token && domain === bounceHost ? { use: token, maxBytes: REPORT_BYTES } : ask(local, domain, token);
    },
  };
}
