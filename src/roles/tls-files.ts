/**
 * The certificate of SMTP that the settings name, tried as it will be used: both files can be read, the key belongs to the
 * certificate, and TLS takes them.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { type Config, ConfigError, settings } from '../config.ts';
import type { TlsFiles } from '../smtp/smtp.ts';

/** Undefined where none are named; throws the line for the operator when they cannot be used. */
export function checkTlsFiles({
  smtpTlsCert: certFile,
  smtpTlsKey: keyFile,
}: Pick<Config, 'smtpTlsCert' | 'smtpTlsKey'>): TlsFiles | undefined {
  if (certFile === undefined || keyFile === undefined) return undefined;
  const readPem = <T>(setting: { name: string }, file: string, read: (pem: Buffer) => T): T => {
    try {
      return read(readFileSync(file));
    } catch (error) {
      const { message } = error as Error;
      throw new ConfigError(`${setting.name}="${file}" is not valid (${message}); allowed: a readable PEM file`);
    }
  };
  const certificate = readPem(settings.smtpTlsCert, certFile, (cert) => {
    createSecureContext({ cert });
    return new X509Certificate(cert);
  });
  const key = readPem(settings.smtpTlsKey, keyFile, (pem) => createPrivateKey(pem));
  if (certificate.checkPrivateKey(key)) return { certFile, keyFile };
  throw new ConfigError(
    `${settings.smtpTlsKey.name}="${keyFile}" is not the key of the certificate in ${certFile}; allowed: the key it was made for`,
  );
}
