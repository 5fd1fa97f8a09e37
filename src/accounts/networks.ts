/**
 * The networks from which a key or credential can be used. They are stored in canonical form (`203.0.113.0/24`, `2001:db8::/32`); an empty
 * list means no restriction. They apply to the address of the client, which a trusted proxy can report.
 */
import { failure, type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { isPartOf, mappedNetwork, maskedNetwork, networkText, parseNetwork, singleAddress } from '../net/networks.ts';

export const MAXIMUM_NETWORKS = 20;

const networksIn = (list: readonly string[]) => list.map((text) => parseNetwork(text)!);

/** Returns why the text is refused, as the end of a sentence that starts with the field. */
function networkIssue(text: string): string | undefined {
  const network = parseNetwork(text);
  if (network === undefined)
    return 'must be a network in CIDR notation or an IP address, such as 203.0.113.0/24 or 2001:db8::/32';
  const masked = maskedNetwork(network);
  // The address of a client is never in the mapped form, so the network would match none.
  const mapped = mappedNetwork(masked);
  if (mapped !== undefined) return `must be written as an IPv4 network: ${networkText(mapped)}`;
  if (masked.value === network.value) return undefined;
  return `must have no bits set after its prefix: use ${networkText(masked)} for the network, or ${networkText(singleAddress(network))} for the address`;
}

export function allowedNetworkIssues(list: readonly (string | undefined)[]): Issue[] {
  return list.flatMap((text, index) => {
    const message = text === undefined ? undefined : networkIssue(text);
    return message === undefined ? [] : [{ field: `allowedNetworks[${index}]`, message }];
  });
}

/** Returns the list in its stored form; INVALID_REQUEST names every invalid entry. */
export function readAllowedNetworks(list: readonly string[]): Result<readonly string[]> {
  const issues = allowedNetworkIssues(list);
  if (list.length > MAXIMUM_NETWORKS) {
    issues.push({ field: 'allowedNetworks', message: `must have at most ${MAXIMUM_NETWORKS} entries` });
  }
  return issues.length > 0 ? refuse(invalid(issues)) : ok([...new Set(networksIn(list).map(networkText))]);
}

/** Returns the networks that a restricted key gives to a key or credential: by default its own, and never more (FORBIDDEN). */
export function grantedNetworks(
  own: readonly string[],
  requested: readonly string[] | undefined,
): Result<readonly string[]> {
  const wanted = readAllowedNetworks(requested ?? own);
  if (!wanted.ok || own.length === 0) return wanted;
  const limits = networksIn(own);
  const isCovered = networksIn(wanted.value).every((one) => limits.some((limit) => isPartOf(one, limit)));
  if (wanted.value.length > 0 && isCovered) return wanted;
  return refuse(
    failure('FORBIDDEN', {
      message: `This key can be used only from ${own.join(', ')}, and can allow only these networks for keys and credentials. List these networks, or parts of them, in allowedNetworks.`,
    }),
  );
}
