/**
 * A real SMTP server on loopback with a scripted behavior at every stage, which checks its client strictly: bare CR, bare LF, NUL,
 * over-long command lines and missing dot-stuffing are recorded as violations. Without a script it accepts everything.
 */
import net, { type Socket } from 'node:net';
import tls from 'node:tls';
import { SinkSession, type SinkState } from './smtp-sink-session.ts';
import type { SinkOptions, SmtpSink } from './smtp-sink-types.ts';
import { testCertificate } from './test-certificate.ts';

export type {
  SinkAction,
  SinkContext,
  SinkMessage,
  SinkOptions,
  SinkRule,
  SinkStage,
  SmtpSink,
} from './smtp-sink-types.ts';

/** Starts a sink; `close()` cuts its connections and stops listening. */
export async function smtpSink(options: SinkOptions = {}): Promise<SmtpSink> {
  const open = new Set<Socket>();
  let peak = 0;
  let total = 0;
  const from: string[] = [];
  let accepted = 0;
  const host = options.host ?? '127.0.0.1';
  const onConnection = (socket: Socket): void => {
    open.add(socket);
    total += 1;
    from.push(socket.remoteAddress ?? '');
    peak = Math.max(peak, open.size);
    socket.setNoDelay(true);
    socket.on('error', () => {}).on('close', () => open.delete(socket));
    new SinkSession(shared, socket, total).run().catch((error: Error) => {
      sink.violations.push(`the sink failed: ${error.message}`);
      socket.destroy();
    });
  };
  const server =
    options.tls === 'implicit'
      ? tls.createServer({ ...(options.certificate ?? testCertificate()) }, onConnection).on('tlsClientError', () => {})
      : net.createServer(onConnection);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(options.port ?? 0, host, resolve);
  });
  const sink: SmtpSink = {
    port: (server.address() as net.AddressInfo).port,
    host,
    messages: [],
    get accepted() {
      return accepted;
    },
    commands: [],
    violations: [],
    connections: {
      get now() {
        return open.size;
      },
      get peak() {
        return peak;
      },
      get total() {
        return total;
      },
      from,
    },
    setScript: (script) => {
      shared.script = script;
      shared.occurrences.clear();
    },
    dropAll: () => {
      for (const socket of open) socket.destroy();
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of open) socket.destroy();
      }),
  };
  const shared: SinkState = {
    options,
    script: options.script ?? {},
    occurrences: new Map(),
    sink,
    count: (answered) => {
      if (answered) accepted += 1;
    },
  };
  return sink;
}
