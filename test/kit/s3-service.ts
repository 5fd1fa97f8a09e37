/** The entire service with its content in a real S3-compatible store, a fault proxy between the two, and an SMTP sink as relay. */
import { randomBytes } from 'node:crypto';
import type { TestContext } from 'node:test';
import type { JsonObject } from './api.ts';
import { type FaultProxy, faultProxy } from './fault-proxy.ts';
import { type S3Peer, startLocalS3 } from './s3.ts';
import { type SmtpSink, smtpSink } from './smtp-sink.ts';
import { type Service, startService } from './start-service.ts';

export interface S3Service {
  peer: S3Peer;
  proxy: FaultProxy;
  sink: SmtpSink;
  service: Service;
  env: Record<string, string>;
}

/** Closed with the test. */
export async function s3Service(t: TestContext): Promise<S3Service> {
  const opened = await openS3Service();
  t.after(opened.close);
  return opened;
}

/** For several tests; the caller closes it. */
export async function openS3Service(): Promise<S3Service & { close(): Promise<void> }> {
  const closing: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const one of closing.splice(0).reverse()) await one();
  };
  try {
    const peer = await startLocalS3();
    closing.push(peer.close);
    const proxy = await faultProxy(Number(new URL(peer.location.endpoint).port));
    closing.push(proxy.close);
    const sink = await smtpSink();
    closing.push(sink.close);
    const env = { ...peer.environment(proxy.url), POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` };
    const service = await startService({ env });
    closing.push(service.close);
    await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
    return { peer, proxy, sink, service, env, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Returns a body for POST /send whose content is too large for the database. */
export function largeMail(to: string, more: JsonObject = {}): JsonObject & { text: string } {
  const text = `${randomBytes(150_000)
    .toString('hex')
    .match(/.{1,70}/g)!
    .join('\n')}\n`;
  return { from: 'Shop <orders@shop.example>', to, subject: 'Your papers', text, ...more };
}

/** Whether the content is that of this message, from the first line of its text to the last. */
export function holds(content: Buffer, mail: { text: string }): boolean {
  return content.toString('latin1').includes(mail.text.replaceAll('\n', '\r\n'));
}
