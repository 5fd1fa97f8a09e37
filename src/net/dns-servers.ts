/** Which DNS servers are asked: those of a setting, or those that the system names in /etc/resolv.conf. */
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

/** Reads `address`, `address:port` or `[v6]:port`; throws when it is none of them. */
export function parseDnsServer(text: string): DnsServer {
  const bracketed = /^\[(.+)\](?::(\d{1,5}))?$/.exec(text);
  const plain = /^([^:]+)(?::(\d{1,5}))?$/.exec(text);
  const [, address = text, portText = PORT] = bracketed ?? plain ?? [];
  const port = Number(portText);
  if (isIP(address) === 0 || port < 1 || port > 65_535) throw new Error(`${text} is no address of a DNS server`);
  return { address, port };
}

/** RFC 1122 §3.2.1.3, RFC 4291 §2.5.3: what it says did not pass through a network. */
export function isOnThisHost({ address }: DnsServer): boolean {
  return address.startsWith('127.') || address === '::1';
}

/** The nameserver lines of a resolv.conf(5); other lines and names that are no addresses are passed over. */
export function readResolvConf(text: string): DnsServer[] {
  return text.split('\n').flatMap((line) => {
    const [, address = ''] = /^\s*nameserver\s+(\S+)/.exec(line) ?? [];
    return isIP(address) === 0 ? [] : [{ address, port: PORT }];
  });
}

/** Where there is no such file (Windows), or it names none: those that Node knows, which at least is this host. */
function otherServers(): DnsServer[] {
  return getServers().map(parseDnsServer);
}

/** The system's servers, which may change while the process runs: the file is read again every five seconds of use. */
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
      // A file that is just being written counts as unchanged.
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
