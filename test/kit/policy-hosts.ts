/**
 * Policy hosts of MTA-STS on loopback: real https servers, one with a good certificate for all of its domains, one whose certificate has
 * expired, one whose certificate is for another name. Each says what its domains' policies are, and counts how often it was asked.
 */
import { freePort } from './free-ports.ts';
import { expiredCertificate, testCertificate } from './test-certificate.ts';
import { type CatcherAnswer, type CaughtRequest, type WebhookCatcher, webhookCatcher } from './webhook-catcher.ts';

export interface PolicyHosts {
  /** As openTlsPolicies takes them. */
  https: { port: number; ca: string };
  /** What is answered for a domain from now on; 404 for those that are not in it. */
  answers: Map<string, CatcherAnswer>;
  /** How often a domain's policy was asked for. */
  asked(domain: string): number;
  /** The address of the policy host of a domain. */
  addressOf(domain: string): string;
  close(): Promise<void>;
}

/** A policy as its host gives it. */
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
