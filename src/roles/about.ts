/** What the API says of itself in its description. */
export const ABOUT = {
  title: 'Postrider',
  version: '0.1.0',
  description:
    'Transactional email: send over HTTP, follow what became of it by events and webhooks. Every call carries X-Api-Key and X-Id. A sandbox key makes the same calls, and nothing leaves the machine.',
};
