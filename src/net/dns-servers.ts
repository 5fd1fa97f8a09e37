/** The DNS servers to ask: those of the setting, or the system's from /etc/resolv.conf. */
import { getServers } from 'node:dns';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';

export interface DnsServer {
  address: string;
  port: number;
}

const PORT = 53;
const RESOLV_CONF = '/etc/resolv.conf';
const REREAD_MS = 5_000;

/** Parses `address`, `address:port`, or `[v6]:port`; throws if the text is none of these. */
export function parseDnsServer(text: string): DnsServer {
  const bracketed = /^\[(.+)\](?::(\d{1,5}))?$/.exec(text);
  const plain = /^([^:]+)(?::(\d{1,5}))?$/.exec(text);
  const [, address = text, portText = PORT] = bracketed ?? plain ?? [];
  const port = Number(portText);
  if (isIP(address) === 0 || port < 1 || port > 65_535)
    throw new Error(
      `${text} is not the address of a DNS server, such as 192.0.2.53, 192.0.2.53:5353, or [2001:db8::53]:53`,
    );
  return { address, port };
}

/** RFC 1122 §3.2.1.3, RFC 4291 §2.5.3: its answers did not pass through a network. */
export function isOnThisHost({ address }: DnsServer): boolean {
  return address.startsWith('127.') || address === '::1';
}

/** Reads the nameserver lines of a resolv.conf(5); other lines and values that are not addresses are ignored. */
export function readResolvConf(text: string): DnsServer[] {
  return text.split('\n').flatMap((line) => {
    const [, address = ''] = /^\s*nameserver\s+(\S+)/.exec(line) ?? [];
    return isIP(address) === 0 ? [] : [{ address, port: PORT }];
  });
}

/** Without such a file (Windows), or if it lists no server: those that Node knows, at least this host. */
function otherServers(): DnsServer[] {
  return getServers().map(parseDnsServer);
}

/** The system's servers, which may change while the process runs: the file is reread every five seconds while in use. */
export function systemServers(file = RESOLV_CONF, rereadMs = REREAD_MS): () => readonly DnsServer[] {
  const orOthers = (read: DnsServer[]): DnsServer[] => (read.length > 0 ? read : otherServers());
  let servers: DnsServer[];
  try {
    servers = orOthers(readResolvConf(readFileSync(file, 'utf8')));
  } catch {
    servers = otherServers();
  }
  let nextMs = performance.now() + rereadMs;
  return () => {
    if (performance.now() >= nextMs) {
      nextMs = performance.now() + rereadMs;
      // A file that is being written is treated as unchanged.
      readFile(file, 'utf8').then(
        (text) => {
          const read = readResolvConf(text);
          if (read.length > 0) servers = read;
        },
        () => undefined,
      );
    }
    return servers;
  };
}
