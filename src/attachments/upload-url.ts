/**
 * The upload URL: a capability for one file of one submission. Its token names the file and the end of its life and is
 * signed together with all that the manifest says of the file, under a key of its own that is derived from the service's
 * secret key. Its holder may upload these very bytes until it expires, and nothing else; no other altered,
 * guessed or borrowed token opens. The signature is compared as text, so that not even its unused last bits may differ.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';

/** Where uploads arrive, below the base URL. */
export const UPLOAD_PATH = '/uploads/';

/** Fields apart from each other by a character that none of the first three holds; the signature has a fixed length. */
const TOKEN = /^(sub_[0-9A-Za-z]{21})-([0-9]{1,2})-([0-9a-z]{1,11})-([0-9A-Za-z_-]{43})$/;

/** What one URL is bound to. */
export interface UploadGrant {
  submissionId: string;
  /** The file's place in the manifest, from 0. */
  number: number;
  /** Unix ms. */
  expiresAt: number;
  sizeBytes: number;
  sha256: Uint8Array;
  contentType: string;
}

/** What a token claims to be for; not to be believed before `verify`. */
export interface UploadClaim {
  submissionId: string;
  number: number;
  expiresAt: number;
  signature: string;
}

export interface UploadUrls {
  /** Absolute address for the PUT. */
  url(grant: UploadGrant): string;
  /** What the path and query of a request claim, or undefined when they have not the form of an upload URL. */
  read(url: string): UploadClaim | undefined;
  /** Whether the claim was signed here for exactly this grant. */
  verify(claim: UploadClaim, grant: UploadGrant): boolean;
}

/** `secretKey` is the service's own (32 bytes); `baseUrl` has no slash at its end, and is read at each use. */
export function createUploadUrls(options: { secretKey: Uint8Array; baseUrl: string }): UploadUrls {
  const key = Buffer.from(hkdfSync('sha256', options.secretKey, '', 'postrider upload urls', 32));
  const sign = (grant: UploadGrant): string => {
    const { submissionId, number, expiresAt, sizeBytes, contentType } = grant;
    const digest = Buffer.from(grant.sha256).toString('hex');
    const said = [submissionId, number, expiresAt, sizeBytes, digest, contentType].join('\n');
    return createHmac('sha256', key).update(said).digest('base64url');
  };
  return {
    url: (grant) => {
      const { submissionId, number, expiresAt } = grant;
      const token = `${submissionId}-${number}-${expiresAt.toString(36)}-${sign(grant)}`;
      return `${options.baseUrl}${UPLOAD_PATH}${token}`;
    },
    read: (url) => {
      const match = url.startsWith(UPLOAD_PATH) ? TOKEN.exec(url.slice(UPLOAD_PATH.length)) : null;
      if (match === null) return undefined;
      const [, submissionId = '', number = '', expiresAt = '', signature = ''] = match;
      // A leading zero would be a second way to write the same number.
      if (/^0./.test(number) || /^0./.test(expiresAt)) return undefined;
      return { submissionId, number: Number(number), expiresAt: Number.parseInt(expiresAt, 36), signature };
    },
    verify: (claim, grant) => {
      const isSame =
        claim.submissionId === grant.submissionId &&
        claim.number === grant.number &&
        claim.expiresAt === grant.expiresAt;
      return timingSafeEqual(Buffer.from(claim.signature), Buffer.from(sign(grant))) && isSame;
    },
  };
}
