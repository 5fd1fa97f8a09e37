/**
 * Orders a certificate for one name, from the account to the certificate chain (RFC 8555 §7.1.1), with the challenge http-01 (§8.3). Each
 * certificate has a new key (EC P-256). The certificate is checked before it is returned.
 */
import { generateKeyPairSync, type KeyObject, sign, X509Certificate } from 'node:crypto';
import { bits, der, ECDSA_SHA256, integer, objectId, sequence, set, subjectAltName } from '../base/der.ts';
import { type AcmeClient, AcmeError, type ClientOptions, openAcmeClient, type Problem, problemText } from './client.ts';

const EXTENSION_REQUEST = '1.2.840.113549.1.9.14';
const CONTEXT_0 = 0xa0;

export interface Issued {
  /** PEM, PKCS #8. */
  key: string;
  /** PEM: the certificate and its issuers' certificates. */
  cert: string;
  /** Unix ms. */
  expiresAtMs: number;
  /** From notBefore to notAfter. */
  lifetimeMs: number;
}

export interface OrderOptions extends ClientOptions {
  name: string;
  email: string;
  /** Resolves once requests for this token at the name get this answer. */
  publish(token: string, answer: string): Promise<void>;
}

interface Authorization {
  status: string;
  challenges: { type: string; url: string; token: string; status: string; error?: Problem }[];
}

interface Order {
  status: string;
  authorizations: string[];
  finalize: string;
  certificate?: string;
  error?: Problem;
}

/** Returns a new EC key on P-256 as PEM. */
export function newKey(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
}

/** Returns a certificate request (RFC 2986 §4) with the name as subjectAltName and an empty subject. */
export function certificateRequest(name: string, key: KeyObject, publicKey: KeyObject): Buffer {
  const wanted = sequence(objectId(EXTENSION_REQUEST), set(sequence(subjectAltName([name]))));
  const body = sequence(
    integer(Buffer.of(0)),
    sequence(),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(CONTEXT_0, wanted),
  );
  return sequence(body, ECDSA_SHA256, bits(sign('sha256', body, key)));
}

/** Orders a certificate. Rejects with AcmeError, or with the error of `publish`. */
export async function orderCertificate(options: OrderOptions): Promise<Issued> {
  const { name, email } = options;
  const client = await openAcmeClient(options);
  // If the authority knows the key, this returns the existing account (§7.3).
  await client.openAccount({ termsOfServiceAgreed: true, contact: [`mailto:${email}`] });
  const created = await client.newOrder({ identifiers: [{ type: 'dns', value: name }] });
  const order = created.body as Order;
  if (created.location === undefined) throw new AcmeError('the certificate authority returned no order URL');
  for (const url of order.authorizations) await authorize(client, url, options);
  const ready = await client.poll<Order>(created.location, ({ status }) => status !== 'pending');
  if (ready.status === 'invalid') throw invalid(ready);
  const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const csr = certificateRequest(name, keys.privateKey, keys.publicKey).toString('base64url');
  await client.post(ready.finalize, { csr });
  const done = await client.poll<Order>(created.location, ({ status }) => status === 'valid' || status === 'invalid');
  if (done.status === 'invalid' || done.certificate === undefined) throw invalid(done);
  const { text: cert } = await client.post(done.certificate);
  return { ...validity(cert, name, keys.privateKey), cert, key: pem(keys.privateKey) };
}

const pem = (key: KeyObject): string => key.export({ type: 'pkcs8', format: 'pem' }) as string;

const invalid = ({ error }: Order): AcmeError => new AcmeError(`the certificate order failed: ${problemText(error)}`);

/** Proves control of the name; an authorization that the authority has stored is valid from the start. */
async function authorize(client: AcmeClient, url: string, { name, publish }: OrderOptions): Promise<void> {
  const { body } = await client.post<Authorization>(url);
  if (body.status === 'valid') return;
  const challenge = body.challenges.find(({ type }) => type === 'http-01');
  if (challenge === undefined) throw new AcmeError(`the certificate authority offers no http-01 challenge for ${name}`);
  await publish(challenge.token, client.keyAuthorization(challenge.token));
  await client.post(challenge.url, {});
  const ended = await client.poll<Authorization>(url, ({ status }) => status !== 'pending');
  if (ended.status === 'valid') return;
  const { error } = ended.challenges.find(({ type }) => type === 'http-01') ?? {};
  throw new AcmeError(`the certificate authority could not validate ${name}: ${problemText(error)}`);
}

/** Returns the validity of the certificate; throws if it is for another name or key. */
function validity(chain: string, name: string, key: KeyObject): Pick<Issued, 'expiresAtMs' | 'lifetimeMs'> {
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(chain);
  } catch {
    throw new AcmeError('the certificate authority returned an invalid certificate');
  }
  if (certificate.checkHost(name) === undefined || !certificate.checkPrivateKey(key)) {
    throw new AcmeError(`the issued certificate does not match ${name} and its private key`);
  }
  const expiresAtMs = Date.parse(certificate.validTo);
  return { expiresAtMs, lifetimeMs: expiresAtMs - Date.parse(certificate.validFrom) };
}
