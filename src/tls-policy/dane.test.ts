/** Which TLSA records are trusted, and which part of a certificate they match. */
import assert from 'node:assert/strict';
import { createHash, X509Certificate } from 'node:crypto';
import test from 'node:test';
import tls from 'node:tls';
import { issuedCertificate, testCertificate } from '../../test/kit/test-certificate.ts';
import type { AddressAnswer, Dns, DnsAnswer, TlsaRecord } from '../net/dns.ts';
import { daneFailure, lookUpDane, publicKeyInfo } from './dane.ts';

test('the public key of a certificate is extracted byte for byte, for every key type', () => {
  const all = [testCertificate(['a.example']).cert, issuedCertificate('b.example').cert, ...tls.rootCertificates];
  for (const pem of all) {
    const { raw, publicKey } = new X509Certificate(pem);
    assert.deepEqual(publicKeyInfo(raw), publicKey.export({ type: 'spki', format: 'der' }));
  }
});

const words = 'the TLSA records of mx.example (DANE)';
// Certificates are valid from the second in which they are created.
const nowMs = Date.now() + 60_000;

test('a full issuer certificate in a record replaces an unsent one, but must have signed', () => {
  const { cert, issuer } = issuedCertificate('mx.example');
  const leaf = new X509Certificate(cert);
  const whole = new X509Certificate(issuer);
  const names = ['mx.example'];
  const record = (data: Buffer): TlsaRecord => ({ usage: 2, selector: 0, matching: 0, data });
  const of = (usable: TlsaRecord[], issuers: X509Certificate[] = []) =>
    daneFailure({ leaf, issuers }, { usable, names, words, nowMs });
  assert.equal(of([record(whole.raw)]), undefined);
  const digest = { usage: 2, selector: 0, matching: 1, data: createHash('sha256').update(whole.raw).digest() };
  assert.equal(of([digest], [whole]), undefined);
  assert.equal(of([digest])?.type, 'validation-failure', 'an issuer that is not sent');
  const stranger = new X509Certificate(issuedCertificate('other.example').issuer);
  const strangers = { ...digest, data: createHash('sha256').update(stranger.raw).digest() };
  assert.equal(of([strangers], [stranger])?.type, 'validation-failure', 'a sent issuer that did not sign');
  assert.equal(of([record(stranger.raw)])?.type, 'validation-failure');
  const itself = { usage: 2, selector: 0, matching: 0, data: leaf.raw };
  assert.equal(of([itself])?.type, 'validation-failure', 'the certificate itself is not an issuer');
  assert.equal(of([record(Buffer.from('none'))])?.type, 'validation-failure');
});

const TEMPORARY = { status: 'temporary' as const, cause: 'ETIMEOUT' };

interface Zone {
  addresses: 'temporary' | { secure: boolean; canonicalName?: string };
  cname?: boolean | 'temporary';
  tlsa: Record<string, 'temporary' | { secure: boolean; records?: TlsaRecord[] }>;
}

function dnsOf({ addresses, cname, tlsa }: Zone): Dns {
  const found = { status: 'found' as const, ttlMs: 60_000 };
  return {
    resolveAddresses: async (host: string): Promise<AddressAnswer> => {
      if (addresses === 'temporary') return TEMPORARY;
      const { secure, canonicalName = host } = addresses;
      return { ...found, value: ['192.0.2.1'], canonicalName, secure };
    },
    resolveCname: async (): Promise<DnsAnswer<string>> =>
      cname === 'temporary' ? TEMPORARY : { ...found, value: 'behind.example', secure: cname === true },
    resolveTlsa: async (name: string): Promise<DnsAnswer<TlsaRecord[]>> => {
      const entry = tlsa[name];
      if (entry === undefined) return { status: 'no-such-domain', secure: true };
      if (entry === 'temporary') return TEMPORARY;
      return { ...found, value: entry.records ?? [], secure: entry.secure };
    },
  } as unknown as Dns;
}

const record: TlsaRecord = { usage: 3, selector: 1, matching: 1, data: Buffer.alloc(32) };
const RECORDS = { secure: true, records: [record] };

test('records are looked up at the alias target, then at the name, and only if secure', async () => {
  const lookUp = async (zone: Zone): Promise<string> => {
    const answer = await lookUpDane(dnsOf(zone), 'mx.example', 25);
    return answer.kind === 'found' ? answer.base : answer.kind;
  };
  const [here, behind] = ['_25._tcp.mx.example', '_25._tcp.behind.example'];
  const secure = { secure: true };
  const alias = { canonicalName: 'behind.example' };
  assert.equal(await lookUp({ addresses: secure, tlsa: { [here]: RECORDS } }), 'mx.example');
  assert.equal(await lookUp({ addresses: { secure: false }, tlsa: { [here]: RECORDS } }), 'none');
  assert.equal(await lookUp({ addresses: secure, tlsa: { [here]: { ...RECORDS, secure: false } } }), 'none');
  assert.equal(await lookUp({ addresses: secure, tlsa: { [here]: 'temporary' } }), 'failed');
  assert.equal(await lookUp({ addresses: secure, tlsa: {} }), 'none');
  assert.equal(
    await lookUp({ addresses: { ...secure, ...alias }, tlsa: { [here]: RECORDS, [behind]: RECORDS } }),
    'behind.example',
  );
  assert.equal(await lookUp({ addresses: { ...secure, ...alias }, tlsa: { [here]: RECORDS } }), 'mx.example');
  assert.equal(await lookUp({ addresses: { ...secure, ...alias }, tlsa: { [behind]: 'temporary' } }), 'failed');
  const half = { secure: false, ...alias };
  assert.equal(
    await lookUp({ addresses: half, cname: true, tlsa: { [here]: RECORDS, [behind]: RECORDS } }),
    'mx.example',
  );
  assert.equal(await lookUp({ addresses: half, tlsa: { [here]: RECORDS, [behind]: RECORDS } }), 'none');
  const records = { [here]: RECORDS };
  assert.equal(await lookUp({ addresses: 'temporary', tlsa: records }), 'failed', 'the address lookup fails');
  assert.equal(
    await lookUp({ addresses: half, cname: 'temporary', tlsa: records }),
    'failed',
    'the alias lookup fails',
  );
});

test('usages 2 and 3 with digests of the right length are usable', async () => {
  const digest = (length: number): Buffer => Buffer.alloc(length, 1);
  const of = async (change: Partial<TlsaRecord>): Promise<number> => {
    const records = [{ ...record, ...change }];
    const zone = { addresses: { secure: true }, tlsa: { '_25._tcp.mx.example': { secure: true, records } } };
    const answer = await lookUpDane(dnsOf(zone), 'mx.example', 25);
    return answer.kind === 'found' ? answer.usable.length : -1;
  };
  for (const change of [
    {},
    { usage: 2 },
    { selector: 0 },
    { matching: 2, data: digest(64) },
    { matching: 0, data: digest(300) },
  ]) {
    assert.equal(await of(change), 1, JSON.stringify(change));
  }
  for (const change of [
    { usage: 0 },
    { usage: 1 },
    { usage: 255 },
    { selector: 2 },
    { matching: 3 },
    { data: digest(31) },
    { matching: 2 },
    { matching: 0, data: digest(0) },
  ]) {
    assert.equal(await of(change), 0, JSON.stringify(change));
  }
});
