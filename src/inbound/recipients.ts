/**
 * Whom mail from outside may be addressed to: the address of a copy that was sent (bounces, unsubscribe mails), abuse and
 * postmaster of the domains that bounces come back to, postmaster without a domain or at our host (RFC 5321 §4.5.1), and what routes of
 * users take. Anybody else is nobody here; nothing is passed on to other servers.
 *
 * Every refusal costs the same work: a token is opened (or what is none is treated like one), the domain is asked for, and the
 * routes are. So its time tells nothing. A token of ours at the bounce domain is somebody's without a question.
 */
import type { Clock } from '../base/clock.ts';
import { domainToAscii } from '../mail/address.ts';
import type { TokenAddresses } from '../mail/token-address.ts';
import type { FindRoute, Taken, Use } from './inbound-mail.ts';

/** Of a mail to the bounce domain: Exchange returns the whole message, with its files. Little of it is kept. */
const REPORT_BYTES = 50_000_000;

export interface Recipients {
  /** Undefined for nobody's; a promise where the database is asked. `domain` is empty where none was given. */
  find(address: { local: string; domain: string }): Taken | Promise<Taken | undefined>;
}

export interface RecipientsOptions {
  tokens: TokenAddresses;
  clock: Clock;
  /** Of the return path; undefined where none is set. */
  bounceDomain: string | undefined;
  /** Our host's name. */
  hostname: string;
  /** Whether a domain is the return path of a sender domain, seen to lead to the bounce domain. */
  isReturnPath(domain: string): Promise<boolean>;
  findRoute: FindRoute;
}

export function createRecipients(options: RecipientsOptions): Recipients {
  const { tokens, clock, bounceDomain, hostname, isReturnPath, findRoute } = options;
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

  const ask = async (local: string, domain: string, token: Use | undefined): Promise<Taken | undefined> => {
    const [isOfReturnPath, route] = await Promise.all([isReturnPath(domain), findRoute({ local, domain })]);
    const use = ofName(local, domain, isOfReturnPath || domain === bounceHost) ?? (isOfReturnPath ? token : undefined);
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
