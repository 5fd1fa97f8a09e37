/**
 * A proxy between a client and PostgreSQL that loses the reply to a COMMIT: the server commits, and the client's connection ends before the
 * reply. This happens to some transactions in every failover; here the test selects the transaction.
 */
import net, { type AddressInfo, type Socket } from 'node:net';

export interface CommitCut {
  /** The database URL through the proxy. */
  url: string;
  /** Loses the reply to the next COMMIT of a transaction in which these bytes were sent; '' matches every one. */
  loseAnswer(marker: string): void;
  /** How many replies were lost. */
  readonly lost: number;
  close(): Promise<void>;
}

const COMMIT = 'COMMIT\0';

export async function commitCut(databaseUrl: string): Promise<CommitCut> {
  const target = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  let marker: string | undefined;
  let lost = 0;
  const proxy = net.createServer((client) => {
    const upstream = net.connect(Number(target.port), target.hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    }
    let sent = '';
    let isCut = false;
    client.on('data', (chunk) => {
      upstream.write(chunk);
      sent += chunk.toString('latin1');
      if (!sent.includes(COMMIT)) return;
      const isMeant = marker !== undefined && sent.includes(marker);
      sent = '';
      if (!isMeant) return;
      marker = undefined;
      lost += 1;
      isCut = true;
      client.destroy();
      // A reset would discard data that the server has not read yet.
      upstream.end();
    });
    upstream.on('data', (chunk) => {
      if (!client.destroyed) client.write(chunk);
    });
    upstream.on('close', () => client.destroy());
    client.on('close', () => isCut || upstream.destroySoon());
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const through = new URL(databaseUrl);
  through.host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  return {
    url: through.href,
    loseAnswer: (bytes) => {
      marker = bytes;
    },
    get lost() {
      return lost;
    },
    close: () =>
      new Promise<void>((resolve) => {
        for (const socket of sockets) socket.destroy();
        proxy.close(() => resolve());
      }),
  };
}
