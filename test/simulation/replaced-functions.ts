/**
 * Lists which functions of nondeterministic modules the simulation replaces, and which only compute. All other functions fail while a
 * scenario runs, and product code that runs in a scenario must not import them (test/house/simulated-io.test.ts).
 */
interface Door {
  replaced: readonly string[];
  /** Deterministic functions. */
  pure: readonly string[];
}

const words = (text: string): string[] => text.split(' ');

export const DOORS: Readonly<Record<string, Door>> = {
  'node:crypto': {
    replaced: words(
      'argon2 generateKeyPair generateKeyPairSync randomBytes randomFillSync randomInt randomUUID sign webcrypto',
    ),
    pure: words(
      'KeyObject X509Certificate constants createCipheriv createDecipheriv createHash createHmac createPrivateKey createPublicKey createSecretKey createSign createVerify getCiphers getCurves getFips getHashes hash hkdfSync secureHeapUsed timingSafeEqual verify',
    ),
  },
  'node:dgram': { replaced: ['createSocket'], pure: [] },
  'node:fs/promises': {
    replaced: words('mkdir open readdir readFile rename stat unlink'),
    pure: ['constants'],
  },
  'node:http': {
    replaced: ['createServer'],
    pure: words('IncomingMessage METHODS STATUS_CODES Server ServerResponse validateHeaderName validateHeaderValue'),
  },
  'node:net': {
    replaced: words('Socket connect createConnection createServer'),
    pure: words('BlockList SocketAddress getDefaultAutoSelectFamily isIP isIPv4 isIPv6 setDefaultAutoSelectFamily'),
  },
  'node:timers/promises': { replaced: ['setImmediate', 'setTimeout'], pure: [] },
  'node:tls': {
    replaced: words('TLSSocket connect createSecureContext'),
    pure: words(
      'DEFAULT_CIPHERS checkServerIdentity convertALPNProtocols getCACertificates getCiphers rootCertificates',
    ),
  },
  'node:worker_threads': {
    replaced: ['Worker'],
    pure: words('isMainThread markAsUncloneable markAsUntransferable parentPort receiveMessageOnPort workerData'),
  },
};

/** Makes every other function of a module fail once there is a scenario. Classes stay, because others extend them. */
export function blockUnreplaced(name: string, module: object, isOpen: () => boolean): void {
  const { replaced, pure } = DOORS[name]!;
  for (const [member, real] of Object.entries(module)) {
    if (typeof real !== 'function' || /^[A-Z]/.test(member) || [...replaced, ...pure].includes(member)) continue;
    // Read-only members are replaced at their source object (globals.ts).
    if (!Object.getOwnPropertyDescriptor(module, member)!.writable) continue;
    const closed = function (this: unknown, ...args: unknown[]): unknown {
      if (!isOpen()) throw new Error(`${member} of ${name} goes around the simulated world`);
      return Reflect.apply(real, this, args);
    };
    Object.assign(module, { [member]: closed });
  }
}
