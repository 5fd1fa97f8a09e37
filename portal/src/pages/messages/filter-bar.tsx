/** The filters of the message list: a search and two choices, the others behind a button. All are stored in the URL. */
import { Select, TagsInput, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useCall } from '../../api.ts';
import { FilterChoice, Filters } from '../../parts/filters.tsx';
import { SearchField } from '../../parts/search-field.tsx';
import { filters, messageList } from '../../texts/messages.ts';
import { isPair, listed, MORE_FILTERS, TEXT_FILTERS, type useListQuery } from './list-query.ts';
import classes from './messages.module.css';
import { STATUSES } from './search-syntax.ts';

type List = ReturnType<typeof useListQuery>;

export function FilterBar({ list }: { list: List }) {
  const { search, change } = list;
  return (
    <Filters of="messages" rare={{ fields: MORE_FILTERS, content: <MoreFilters list={list} /> }}>
      <SearchField
        name="q"
        type="search"
        className={classes.search}
        label={messageList.search}
        placeholder={messageList.searchHint}
        isMain
      />
      <FilterChoice
        name="status"
        width="9.5rem"
        label={filters.status}
        any={filters.anyStatus}
        data={STATUSES.map((value) => ({ value, label: value.charAt(0).toUpperCase() + value.slice(1) }))}
      />
      <Select
        label={filters.range}
        style={{ flexBasis: '9.5rem' }}
        value={search.range ?? ''}
        onChange={(range) => change({ range: range ?? undefined, since: undefined, until: undefined })}
        data={Object.entries(filters.ranges).map(([value, label]) => ({ value, label }))}
      />
      {search.range === 'between' &&
        (['since', 'until'] as const).map((name) => (
          <TextInput
            key={name}
            type="datetime-local"
            label={filters[name]}
            value={search[name] ?? ''}
            onChange={({ currentTarget }) => change({ [name]: currentTarget.value })}
          />
        ))}
    </Filters>
  );
}

function MoreFilters({ list }: { list: List }) {
  const { search, change } = list;
  const [isWrong, setWrong] = useState(false);
  const templates = useCall('listTemplates', { query: { limit: 100 } });
  const known = (templates.data ?? []).map(({ templateId, name }) => ({ value: templateId, label: name }));
  const chosen = search.template ?? '';
  const missing =
    chosen === '' || known.some(({ value }) => value === chosen) ? [] : [{ value: chosen, label: chosen }];
  return (
    <>
      {TEXT_FILTERS.map((name) => (
        <SearchField key={name} name={name} label={filters[name]} placeholder={filters[`${name}Hint`]} />
      ))}
      <Select
        label={filters.template}
        value={chosen}
        searchable={true}
        onChange={(template) => change({ template: template ?? undefined })}
        data={[{ value: '', label: filters.anyTemplate }, ...known, ...missing]}
      />
      <TagsInput
        label={filters.tags}
        size={'sm'}
        placeholder={search.tags ? '' : filters.tagsHint}
        maxTags={10}
        value={listed(search.tags, ',')}
        onChange={(tags) => change({ tags: tags.join(',') })}
      />
      <TagsInput
        label={filters.metadata}
        size={'sm'}
        splitChars={[]}
        placeholder={search.metadata ? '' : filters.metadataHint}
        error={isWrong ? filters.metadataWrong : undefined}
        value={listed(search.metadata, '\n')}
        onChange={(pairs) => {
          setWrong(!pairs.every(isPair));
          change({ metadata: pairs.filter(isPair).join('\n') });
        }}
      />
    </>
  );
}
