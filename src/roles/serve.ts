/**
 * `postrider serve`: opens the shared parts, starts the configured roles, announces itself, and stops on a signal within 30 seconds. First
 * everything drains at the same time: pending requests are answered, deliveries and webhooks in progress are finished and recorded, other
 * work is released, and new requests are refused on ports that are still open. Then the ports are closed, then storage.
 */
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { collectGarbage, letHeapGrow } from '../base/collector.ts';
import { type Running, stopAll } from '../base/lifecycle.ts';
import { createLog, type Log } from '../base/log.ts';
import { type Config, publicUrl, VERSION } from '../config.ts';
import { isHttps } from '../engagement/engagement.ts';
import { joinNodes } from '../nodes/nodes.ts';
import { hasEverServed } from '../storage/data-directory.ts';
import { type FirstRun, firstRun, moveFirstRun } from '../users/users.ts';
import { assertPublicNames } from './certificate-names.ts';
import { openParts, type Parts } from './parts.ts';
import { assertPortsFree, assertSourceAddresses, checkTlsFiles, hasTlsPort } from './ports.ts';
import { openProviderFile } from './provider-file.ts';
import { type Roles, startRoles } from './start-roles.ts';

interface Serving {
  /** Port of the API, or without that role of /health, /ready, and /metrics only; undefined if another process uses the port. */
  httpPort: number | undefined;
  /** Undefined if the smtp role does not run here. */
  smtpPort: number | undefined;
  /** Resolves when storage failed and the process should exit with an error. */
  broken: Promise<string>;
  /** Rereads the configured certificate and provider files. Invalid files are logged and change nothing. */
  reload(): void;
  stop(): Promise<void>;
}

interface ServeOptions {
  log?: Log;
  /** The process that holds the data directory and accepts signals for this one; by default this process itself. */
  supervisorPid?: number;
  /** Starts work of the caller alongside the roles; it is stopped before them. */
  startAlongside?(parts: Parts): Running;
}

const IDLE: Running = { stop: () => Promise.resolve() };

/** Tells other programs that and where this process serves. */
export const ANNOUNCEMENT = 'serving.json';
/** When to collect the garbage of loading: after the first requests, which would otherwise wait for it. */
const COLLECT_AFTER_MS = 10_000;

/**
 * Starts the configured roles; rejects with an error for the operator if that is not possible. Errors in the settings are reported before
 * anything is created, as far as possible. A first run is announced as soon as it is committed: its credentials are valid whatever happens
 * afterwards. It is announced again if its link contains a port that the system chose.
 */
export async function serve(
  config: Config,
  onFirstRun: (first: FirstRun) => void = () => undefined,
  { log = createLog(config.logLevel), supervisorPid, startAlongside = () => IDLE }: ServeOptions = {},
): Promise<Serving> {
  const broken = Promise.withResolvers<string>();
  letHeapGrow();
  assertPublicNames(config);
  const tlsFiles = hasTlsPort(config) ? checkTlsFiles(config) : undefined;
  if (config.roles.includes('delivery')) await assertSourceAddresses(config);
  const providerFile = openProviderFile(config);
  // A supervisor has checked them already, and its other processes may be using them.
  if (supervisorPid === undefined && !hasEverServed(config.dataDir)) await assertPortsFree(config);
  let isBroken = false;
  const onBroken = (reason: string): void => {
    // The database and the content store both notice a failed disk; the first to notice it names the cause.
    if (isBroken) return;
    isBroken = true;
    log.fatal({ reason }, 'fatal error; the process ends');
    broken.resolve(reason);
  };
  const parts = await openParts({ config, log, onBroken, isDirectoryHeld: supervisorPid !== undefined });
  const opened: Running[] = [parts];
  try {
    const { database, clock, directory } = parts;
    const first = await firstRun({ database, clock, directory, baseUrl: publicUrl(config) });
    if (first) onFirstRun(first);
    const nodes = await joinNodes({
      database,
      clock,
      log,
      host: config.smtpHostname,
      version: VERSION,
      roles: config.roles,
    });
    opened.push(nodes);
    const roles = await startRoles(parts, { nodes, tlsFiles, providers: providerFile.providers });
    opened.push(roles, startAlongside(parts));
    const baseUrl = publicUrl({ ...config, httpPort: roles.httpPort ?? config.httpPort });
    if (first && baseUrl !== publicUrl(config)) onFirstRun(moveFirstRun(directory, first, baseUrl));
    opened.push(announce(parts, roles, supervisorPid));
    setTimeout(collectGarbage, COLLECT_AFTER_MS).unref();
    const { httpPort, smtpPort } = roles;
    let stopping: Promise<void> | undefined;
    const stop = (): Promise<void> => {
      stopping ??= stopAll(opened).then(() => log.info('stopped'));
      return stopping;
    };
    const reload = (): void => {
      log.info('reloading certificates and provider file');
      roles.reloadCertificates();
      providerFile.reload(log);
    };
    return { httpPort, smtpPort, broken: broken.promise, reload, stop };
  } catch (error) {
    await stopAll(opened);
    throw error;
  }
}

/** Announces in the log and to other programs that this process serves; on stop this ends first. */
function announce(
  { config, directory, log, overload }: Parts,
  { started, httpPort, httpsPort, smtpPort, smtpsPort, inboundPort }: Roles,
  supervisorPid: number | undefined,
): Running {
  const file = path.join(directory.path, ANNOUNCEMENT);
  const announcement = {
    pid: supervisorPid ?? process.pid,
    httpPort,
    httpHost: config.httpHost,
    httpsPort,
    smtpPort,
    smtpsPort,
    inboundPort,
  };
  writeFileSync(file, JSON.stringify(announcement), { mode: 0o600 });
  log.info(
    { roles: started, httpPort, httpsPort, smtpPort, smtpsPort, inboundPort, dataDir: directory.path },
    'started',
  );
  if (config.roles.includes('api') && !isHttps(config.baseUrl ?? '')) {
    // Expected on a development machine, where it is not set.
    log[config.baseUrl === undefined ? 'info' : 'warn'](
      { baseUrl: config.baseUrl ?? `http://localhost:${httpPort}` },
      'POSTRIDER_BASE_URL is not an https URL: one-click unsubscribe is disabled',
    );
  }
  return {
    stop: async () => {
      log.info('stopping');
      // Other processes of a supervisor may still serve.
      if (supervisorPid === undefined) rmSync(file, { force: true });
      overload.startDraining();
    },
  };
}
