/**
 * Location of blobs in an S3-compatible store, parsed from one URL: endpoint, region, bucket, prefix, and addressing style. Pure.
 * Credentials are not part of it.
 */

export interface S3Location {
  /** Scheme, host, port, and path of the service, without a trailing slash. */
  endpoint: string;
  region: string;
  bucket: string;
  /** Prefix of every key, without a trailing slash; may be empty. */
  prefix: string;
  /** Whether the bucket is the first part of the path, or of the host name. */
  style: 'path' | 'virtual';
  /** Set if the credentials are those of the role of the EC2 instance. */
  credentials?: 'instance';
}

export interface S3Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
}

const ALLOWED =
  's3://bucket/prefix?endpoint=https://host&region=name&style=path, where prefix, endpoint (default: AWS), region (default: us-east-1), style (path or virtual) and credentials (instance) can be omitted';
const BUCKET = /^(?=.{3,63}$)[a-z0-9][a-z0-9._-]*[a-z0-9]$/;
const PREFIX = /^(?!.*(^|\/)\.{1,2}(\/|$))[A-Za-z0-9._-]+(\/[A-Za-z0-9._-]+)*$/;
const REGION = /^[A-Za-z0-9-]{1,64}$/;

/** Parses a URL; throws an error whose message states the accepted form. */
export function parseS3Url(text: string): S3Location {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 's3:' || url.hash || url.port) throw new Error(ALLOWED);
  if (url.username || url.password) {
    throw new Error(`${ALLOWED}; set the credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`);
  }
  if (!BUCKET.test(url.hostname))
    throw new Error(`${ALLOWED}; the bucket name must have 3 to 63 of the characters a-z, 0-9, -, ., and _`);
  const prefix = url.pathname.replace(/^\/|\/+$/g, '');
  if (prefix !== '' && (!PREFIX.test(prefix) || prefix.length > 256)) {
    throw new Error(
      `${ALLOWED}; the prefix can have up to 256 of the characters A-Z, a-z, 0-9, -, ., _, and single slashes`,
    );
  }
  const options = new Map<string, string>();
  for (const [name, value] of url.searchParams) {
    if (!['endpoint', 'region', 'style', 'credentials'].includes(name))
      throw new Error(`${ALLOWED}; the option ${name} is not supported`);
    if (options.has(name) || value === '')
      throw new Error(`${ALLOWED}; the option ${name} must occur once and have a value`);
    options.set(name, value);
  }
  const region = options.get('region') ?? 'us-east-1';
  if (!REGION.test(region))
    throw new Error(`${ALLOWED}; the region can have up to 64 of the characters A-Z, a-z, 0-9, and -`);
  const given = options.get('endpoint');
  const endpoint = given === undefined ? `https://s3.${region}.amazonaws.com` : readEndpoint(given);
  const style = options.get('style') ?? (given === undefined ? 'virtual' : 'path');
  if (style !== 'path' && style !== 'virtual') throw new Error(`${ALLOWED}; style must be path or virtual`);
  const credentials = options.get('credentials');
  if (credentials !== undefined && credentials !== 'instance')
    throw new Error(`${ALLOWED}; credentials must be instance`);
  const location: S3Location = { endpoint, region, bucket: url.hostname, prefix, style };
  if (credentials !== undefined) location.credentials = credentials;
  if (style === 'virtual' && !URL.canParse(bucketUrl(location))) {
    throw new Error(`${ALLOWED}; style=virtual requires an endpoint with a host name instead of an IP address`);
  }
  return location;
}

function readEndpoint(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw new Error(`${ALLOWED}; the endpoint must be an http or https URL without credentials and options`);
  }
  return url.href.replace(/\/+$/, '');
}

/** Returns the URL of the bucket, without a trailing slash. */
export function bucketUrl(location: S3Location): string {
  if (location.style === 'path') return `${location.endpoint}/${location.bucket}`;
  return location.endpoint.replace('://', `://${location.bucket}.`);
}

/** Returns the name of the object that holds the blob of this key. */
export function objectName(location: S3Location, key: string): string {
  return location.prefix === '' ? key : `${location.prefix}/${key}`;
}

/** Returns the location for display, without secrets. */
export function describeS3Location(location: S3Location): string {
  const prefix = location.prefix === '' ? '' : ` under ${location.prefix}/`;
  return `bucket ${location.bucket}${prefix} at ${location.endpoint}, region ${location.region}, ${location.style} style`;
}
