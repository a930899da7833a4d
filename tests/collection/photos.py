"""Synthetic items with feature vectors, a network trained on few of them, and a simulated user."""

from corrhash import CHNPlus, Networks, Training
from corrhash.collection import Collection, Judgment
from corrhash.datasets import load_dataset
from corrhash.datasets.records import dataset_records
from corrhash.datasets.supervision import supervise
from corrhash.model import Model, TrainingRun


class Photos:
    """A synthetic dataset, a model trained on a few pairs, and a user who knows the labels."""

    def __init__(self):
        self.split = load_dataset("synthetic", n=600)
        supervision = supervise(self.split, "pairs")
        quick = {"networks": Networks(width=32), "training": Training(epochs=3, batch_size=64)}
        hasher = CHNPlus(16, **quick).fit(supervision.train, validation=supervision.validation)
        training = TrainingRun("synthetic", options={"n": 600}, supervision="pairs")
        self.model = Model(hasher, self.split.reader, training)
        self.records = list(dataset_records(self.split.database))

    def collection(self, uri, n=200, **options):
        collection = Collection.create(uri, self.model, **options)
        collection.add(self.records[:n])
        return collection

    def judge(self, collection, n_queries=12, first=0, k=10):
        labels = self.split.pairs.labels.toarray() > 0
        row_of = {key: row for row, key in enumerate(self.split.pairs.row_keys())}
        keys = [record.key for record in self.records[first : first + n_queries]]
        judgments = []
        for key in keys:
            for match in collection.search(key=key, k=k):
                fits = (labels[row_of[key]] & labels[row_of[match.key]]).any()
                judgments.append(Judgment("key", key, match.key, 1 if fits else -1))
        collection.add_judgments(judgments)
