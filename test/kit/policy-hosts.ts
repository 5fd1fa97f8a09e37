/**
 * MTA-STS policy hosts on loopback: real https servers, one with a valid certificate for all of its domains, one with an expired
 * certificate, one with a certificate for another name. Each serves the policies of its domains and counts the requests.
 */
import { freePort } from './free-ports.ts';
import { expiredCertificate, testCertificate } from './test-certificate.ts';
import { type CatcherAnswer, type CaughtRequest, type WebhookCatcher, webhookCatcher } from './webhook-catcher.ts';

export interface PolicyHosts {
  /** For openTlsPolicies. */
  https: { port: number; ca: string };
  /** The response for each domain from now on; 404 for others. */
  answers: Map<string, CatcherAnswer>;
  /** Returns how often a domain's policy was requested. */
  asked(domain: string): number;
  /** Returns the address of a domain's policy host. */
  addressOf(domain: string): string;
  close(): Promise<void>;
}

/** Returns a policy in the form of a policy host. */
export function policyAnswer(options: { mode: string; mx: string[]; maxAge?: number }): CatcherAnswer {
  const mx = options.mx.map((host) => `mx: ${host}\r\n`).join('');
  const body = `version: STSv1\r\nmode: ${options.mode}\r\n${mx}max_age: ${options.maxAge ?? 604_800}\r\n`;
  return { headers: { 'content-type': 'text/plain; charset=utf-8' }, body };
}

export async function policyHosts(domains: {
  good: string[];
  expired?: string;
  wrongName?: string;
}): Promise<PolicyHosts> {
  const port = await freePort();
  const answers = new Map<string, CatcherAnswer>();
  const script = ({ headers }: CaughtRequest): CatcherAnswer => {
    const domain = (headers.host ?? '').replace(/^mta-sts\./, '').replace(/:\d+$/, '');
    return answers.get(domain) ?? { status: 404 };
  };
  const certificates = [
    testCertificate(domains.good.map((domain) => `mta-sts.${domain}`)),
    expiredCertificate(`mta-sts.${domains.expired ?? 'nobody.example'}`),
    testCertificate(['mta-sts.somewhere-else.example']),
  ];
  const servers: WebhookCatcher[] = [];
  for (const [index, certificate] of certificates.entries()) {
    servers.push(await webhookCatcher({ script, certificate, port, host: `127.0.2.${index + 1}` }));
  }
  return {
    https: { port, ca: certificates.map((one) => one.cert).join('\n') },
    answers,
    asked: (domain) =>
      servers
        .flatMap((server) => server.requests)
        .filter((request) => request.headers.host?.startsWith(`mta-sts.${domain}:`)).length,
    addressOf: (domain) =>
      domain === domains.expired ? '127.0.2.2' : domain === domains.wrongName ? '127.0.2.3' : '127.0.2.1',
    close: async () => {
      for (const server of servers) await server.close();
    },
  };
}
