-- Owners of failures are recipient, sender, service and remote; the category our-side is internal. A word within a text of a mail has its quotes
-- escaped and stays as it is. The id that a cause begins with stays, too (src/delivery/outcome/cause.ts).
UPDATE event SET detail = replace(replace(replace(replace(detail,
  '"reason":"cancelled","owner":"our-side"', '"reason":"cancelled","owner":"sender"'),
  '"owner":"our-side"', '"owner":"service"'),
  '"owner":"sender-domain"', '"owner":"sender"'),
  '"category":"our-side"', '"category":"internal"')
WHERE type IN ('DeliveryDelay', 'Bounce', 'Complaint', 'Reject') AND (detail LIKE '%"our-side"%' OR detail LIKE '%"sender-domain"%');

-- A cause ends with category and owner, after blanks.
UPDATE work SET cause = replace(replace(replace(cause,
  ' our-side our-side', ' internal service'),
  ' our-side', ' service'),
  ' sender-domain', ' sender')
WHERE cause LIKE '% our-side' OR cause LIKE '% sender-domain';
