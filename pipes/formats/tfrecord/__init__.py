"""TFRecord: records with checksums, which hold `tf.train.Example` messages; read and written without TensorFlow."""
