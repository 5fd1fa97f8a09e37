/**
 * Whether the ports of a first start can be had, found out before anything is made for it: they are listened on together for
 * a moment. A later start leaves that to the roles themselves, since clients that know its ports must not meet a listener
 * that goes away again.
 */
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import type { Config } from '../config.ts';
import { listenFault, smtpListenFault } from './listen-fault.ts';
import { smtpPorts } from './smtp.ts';

type Listening = Pick<Config, 'roles' | 'httpHost' | 'httpPort' | 'smtpHost' | 'smtpPort' | 'smtpsPort'>;

/** Rejects with the line for the operator when a port without which the service does not start cannot be had. */
export async function judgePorts(config: Listening): Promise<void> {
  const listening: Server[] = [];
  try {
    if (config.roles.includes('api')) {
      listening.push(
        await listenOn({ port: config.httpPort, host: config.httpHost }, (error) => listenFault(error, config)),
      );
    }
    if (config.roles.includes('smtp')) {
      const { smtpHost, smtpsPort } = config;
      listening.push(await listenOnFirst(smtpPorts(config), smtpHost));
      if (smtpsPort !== undefined) {
        const faultOf = (error: unknown) => smtpListenFault(error, smtpsPort, smtpHost, 'smtpsPort');
        listening.push(await listenOn({ port: smtpsPort, host: smtpHost }, faultOf));
      }
    }
  } finally {
    await Promise.all(listening.map((server) => new Promise((resolve) => server.close(resolve))));
  }
}

async function listenOnFirst([port = 0, ...others]: readonly number[], host: string): Promise<Server> {
  try {
    return await listenOn({ port, host }, (error) => smtpListenFault(error, port, host));
  } catch (error) {
    if (others.length === 0) throw error;
    return listenOnFirst(others, host);
  }
}

async function listenOn(
  where: { port: number; host: string },
  faultOf: (error: unknown) => Error | undefined,
): Promise<Server> {
  const server = createServer((socket) => socket.destroy());
  try {
    server.listen(where);
    await once(server, 'listening');
    return server;
  } catch (error) {
    throw faultOf(error) ?? error;
  }
}
