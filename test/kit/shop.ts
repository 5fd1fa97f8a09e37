/** A service whose live messages go to a sink, and whose account may send from shop.example. */
import { type SmtpSink, smtpSink } from './smtp-sink.ts';
import { type Service, startService } from './start-service.ts';

export interface Shop {
  sink: SmtpSink;
  service: Service;
}

export interface ShopOptions {
  env?: Record<string, string>;
  /** Approved message size in bytes; the default size if absent. */
  emailLimit?: number;
}

export async function openShop(options: ShopOptions = {}): Promise<Shop> {
  const sink = await smtpSink();
  try {
    const env = { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`, ...options.env };
    const service = await startService({ env });
    await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
    if (options.emailLimit !== undefined) {
      await service.cli('account', 'set', service.live.accountId, '--email-limit', String(options.emailLimit));
    }
    return { sink, service };
  } catch (error) {
    await sink.close();
    throw error;
  }
}

/** Closes what a test opened, which may be nothing if the start failed. */
export async function closeShop({ sink, service }: Partial<Shop>): Promise<void> {
  await service?.close();
  await sink?.close();
}
